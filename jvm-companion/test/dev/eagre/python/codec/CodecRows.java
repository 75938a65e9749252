package dev.eagre.python.codec;

import java.math.BigDecimal;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Rows, values and types, in few words, for the tests of the codec. */
final class CodecRows {
    private CodecRows() {}

    static StructType struct(Object... types) {
        StructType struct = new StructType();
        for (int i = 0; i < types.length; i++) struct = struct.add("c" + i, (DataType) types[i], true);
        return struct;
    }

    static GenericInternalRow row(Object... values) {
        return new GenericInternalRow(values);
    }

    static GenericArrayData array(Object... values) {
        return new GenericArrayData(values);
    }

    static UTF8String text(String text) {
        return UTF8String.fromString(text);
    }

    static Decimal decimal(String digits, int precision, int scale) {
        return Decimal.apply(new BigDecimal(digits), precision, scale);
    }
}
