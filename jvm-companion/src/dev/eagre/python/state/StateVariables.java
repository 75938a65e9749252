package dev.eagre.python.state;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.python.codec.Codec;
import dev.eagre.python.codec.WireBuffer;
import dev.eagre.spark.StateScan;
import dev.eagre.state.EncoderCache;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.Iterator;

/** The state variables that a processor declared, in Spark's state store, with their rows as bytes. */
final class StateVariables {
    /** Longer than any real wait, but small enough to add to any time. */
    private static final long FOREVER_MS = 1L << 50;

    private final StatefulProcessorHandle handle;
    private final boolean processingTime;
    private final Object[] states;
    private final Rows[] rows;
    private final Rows[] keys;
    private final int[] values;

    StateVariables(StatefulProcessorHandle handle, JsonNode declared, boolean processingTime) {
        this.handle = handle;
        this.processingTime = processingTime;
        JsonNode variables = declared.get("variables");
        for (JsonNode name : declared.get("deleted")) {
            handle.deleteIfExists(name.asText());
        }
        states = new Object[variables.size()];
        rows = new Rows[states.length];
        keys = new Rows[states.length];
        List<Integer> valueIndexes = new ArrayList<>();
        for (int i = 0; i < states.length; i++) {
            open(i, variables.get(i));
            if (states[i] instanceof ValueState<?>) valueIndexes.add(i);
        }
        values = valueIndexes.stream().mapToInt(Integer::intValue).toArray();
    }

    private void open(int index, JsonNode variable) {
        String name = variable.get("name").asText();
        StructType schema = type(variable.get("schema"));
        JsonNode ttl = variable.get("ttl_ms");
        TTLConfig config = ttl.isNull() ? TTLConfig.NONE() : new TTLConfig(Duration.ofMillis(ttl.asLong()));
        rows[index] = new Rows(schema);
        switch (variable.get("kind").asText()) {
            case "value" -> states[index] = handle.getValueState(name, encoder(schema), config);
            case "list" -> states[index] = handle.getListState(name, encoder(schema), config);
            default -> {
                StructType key = type(variable.get("key"));
                keys[index] = new Rows(key);
                states[index] = handle.getMapState(name, encoder(key), encoder(schema), config);
            }
        }
    }

    private static ExpressionEncoder<Row> encoder(StructType type) {
        return EncoderCache.of(Encoders.row(type));
    }

    static StructType type(JsonNode schema) {
        return (StructType) DataType.fromJson(schema.toString());
    }

    /** Writes the key's values, which every call contains. */
    void write(WireBuffer out) {
        for (int index : values) {
            Row value = value(index).get();
            out.putByte(value == null ? 0 : 1);
            if (value != null) rows[index].write(value, out);
        }
    }

    /** Answers a state request of the worker. */
    void answer(WireBuffer question, WireBuffer out) {
        int op = question.takeByte();
        int index = question.takeByte();
        switch (op) {
            case 0 -> writeAll(list(index).get(), rows[index], out);
            case 1 -> {
                Row value = map(index).getValue(keys[index].read(question.takeBlock()));
                out.putByte(value == null ? 0 : 1);
                if (value != null) rows[index].write(value, out);
            }
            case 2 -> StateScan.toItsEnd(() -> writeEntries(index, out));
            default -> StateScan.toItsEnd(() -> writeTimers(out));
        }
    }

    private static void writeAll(Iterator<Row> items, Rows codec, WireBuffer out) {
        int count = out.reserve(4);
        int written = 0;
        while (items.hasNext()) {
            codec.write(items.next(), out);
            written++;
        }
        out.setInt(count, written);
    }

    private void writeEntries(int index, WireBuffer out) {
        int count = out.reserve(4);
        int written = 0;
        Iterator<Tuple2<Row, Row>> entries = map(index).iterator();
        while (entries.hasNext()) {
            Tuple2<Row, Row> entry = entries.next();
            keys[index].write(entry._1(), out);
            rows[index].write(entry._2(), out);
            written++;
        }
        out.setInt(count, written);
    }

    private void writeTimers(WireBuffer out) {
        int count = out.reserve(4);
        int written = 0;
        Iterator<Object> timers = handle.listTimers();
        while (timers.hasNext()) {
            out.putLong((Long) timers.next());
            written++;
        }
        out.setInt(count, written);
    }

    /** Applies the changes of a successful call. */
    void apply(WireBuffer changes, long now) {
        for (int remaining = changes.takeInt(); remaining > 0; remaining--) {
            int op = changes.takeByte();
            int index = changes.takeByte();
            switch (op) {
                case 0 -> value(index).update(rows[index].read(changes.takeBlock()));
                case 1 -> value(index).clear();
                case 2 -> list(index).put(readAll(index, changes));
                case 3 -> list(index).appendList(readAll(index, changes));
                case 4 -> list(index).clear();
                case 5 -> {
                    Row key = keys[index].read(changes.takeBlock());
                    map(index).updateValue(key, rows[index].read(changes.takeBlock()));
                }
                case 6 -> map(index).removeKey(keys[index].read(changes.takeBlock()));
                case 7 -> StateScan.toItsEnd(map(index)::clear);
                case 8 -> register(changes.takeLong(), now);
                default -> handle.deleteTimer(Math.min(changes.takeLong(), FOREVER_MS));
            }
        }
    }

    /**
     * Sets a timer. In real time Spark scans only for timers after the time of its last scan. A timer in the past
     * would wait until the epoch boundary, so it is moved to now.
     */
    private void register(long expiry, long now) {
        long at = Math.min(expiry, FOREVER_MS);
        handle.registerTimer(processingTime ? Math.max(at, now) : at);
    }

    private Row[] readAll(int index, WireBuffer in) {
        Row[] items = new Row[in.takeInt()];
        for (int i = 0; i < items.length; i++) {
            items[i] = rows[index].read(in.takeBlock());
        }
        return items;
    }

    @SuppressWarnings("unchecked")
    private ValueState<Row> value(int index) {
        return (ValueState<Row>) states[index];
    }

    @SuppressWarnings("unchecked")
    private ListState<Row> list(int index) {
        return (ListState<Row>) states[index];
    }

    @SuppressWarnings("unchecked")
    private MapState<Row, Row> map(int index) {
        return (MapState<Row, Row>) states[index];
    }

    /** Converts rows of one schema to bytes with a length prefix, and back. */
    static final class Rows {
        private final Codec.RowCodec codec;
        private final ExpressionEncoder.Serializer<Row> serializer;
        private final ExpressionEncoder.Deserializer<Row> deserializer;

        Rows(StructType type) {
            codec = new Codec.RowCodec(type);
            ExpressionEncoder<Row> encoder = encoder(type);
            serializer = encoder.createSerializer();
            deserializer = encoder.createDeserializer();
        }

        void write(Row row, WireBuffer out) {
            int length = out.reserve(4);
            codec.write(serializer.apply(row), out);
            out.setInt(length, out.size() - length - 4);
        }

        /** The row as comparable bytes. */
        ByteBuffer bytes(Row row) {
            return bytes(serializer.apply(row));
        }

        ByteBuffer bytes(InternalRow row) {
            return ByteBuffer.wrap(codec.toBytes(row));
        }

        Row read(InternalRow row) {
            return deserializer.apply(row);
        }

        Row read(byte[] bytes) {
            InternalRow row = codec.fromBytes(bytes);
            return deserializer.apply(row);
        }
    }
}
