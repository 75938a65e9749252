package dev.eagre.deadletter;

import java.util.ArrayList;
import java.util.List;
import java.util.Map.Entry;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** An unchanged source record: its key, value and headers. */
record SourceRecord(byte[] key, byte[] value, List<Entry<String, byte[]>> headers) {
    static final SourceRecord EMPTY = new SourceRecord(null, null, List.of());

    /** Converts the headers of Spark's Kafka source: an array of structs, or null. */
    static List<Entry<String, byte[]>> headers(ArrayData array) {
        List<Entry<String, byte[]>> headers = new ArrayList<>();
        for (int i = 0; array != null && i < array.numElements(); i++) {
            InternalRow header = array.getStruct(i, 2);
            UTF8String name = header.getUTF8String(0);
            headers.add(header(name.toString(), header.isNullAt(1) ? null : header.getBinary(1)));
        }
        return headers;
    }

    static Entry<String, byte[]> header(String name, byte[] value) {
        return new java.util.AbstractMap.SimpleImmutableEntry<>(name, value);
    }

    SourceRecord withoutValue() {
        return new SourceRecord(key, null, headers);
    }

    /** Its approximate size in memory. */
    long size() {
        long size = (key == null ? 0 : key.length) + (value == null ? 0 : value.length);
        for (Map.Entry<String, byte[]> header : headers) {
            size += header.getKey().length() + (header.getValue() == null ? 0 : header.getValue().length);
        }
        return size;
    }
}
