package dev.eagre.python.codec;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.sql.types.YearMonthIntervalType;

/**
 * Encodes a Spark type as bytes; {@code eagre_worker/codec.py} is the counterpart.
 *
 * <p>A row is a bitmap of its nulls, then for each field either its value, if the type has a fixed
 * width, or the length of its bytes; then those bytes, field by field. An array is a count, a flag
 * whether a bitmap of nulls follows, and its elements; a map is the length of its keys, an array of
 * keys, and an array of values.
 */
public abstract class Codec {
    /** How many bytes a value takes in the fixed part of a row. */
    final int width;

    /** Whether the fixed part holds only the length. */
    final boolean variable;

    Codec(int width, boolean variable) {
        this.width = width;
        this.variable = variable;
    }

    /** Writes a value that is not null: at {@code at} if its width is fixed, else at the end. */
    abstract void write(SpecializedGetters in, int ordinal, WireBuffer out, int at);

    /** Reads a value: at {@code at}, and of {@code length} bytes if that varies. */
    abstract Object read(WireBuffer in, int at, int length);

    /** The codec of a type; the Python side rejects types without one. */
    static Codec of(DataType type) {
        if (type instanceof StringType) return new VariableWidth.Text();
        if (type instanceof BinaryType) return new VariableWidth.Binary();
        if (type instanceof LongType || type instanceof TimestampType) return new FixedWidth.Int64();
        if (type instanceof TimestampNTZType || type instanceof DayTimeIntervalType) return new FixedWidth.Int64();
        if (type instanceof TimeType) return new FixedWidth.Int64();
        if (type instanceof IntegerType || type instanceof DateType) return new FixedWidth.Int32();
        if (type instanceof YearMonthIntervalType) return new FixedWidth.Int32();
        if (type instanceof DoubleType) return new FixedWidth.Float64();
        if (type instanceof BooleanType) return new FixedWidth.Bool();
        if (type instanceof FloatType) return new FixedWidth.Float32();
        if (type instanceof ShortType) return new FixedWidth.Int16();
        if (type instanceof ByteType) return new FixedWidth.Int8();
        if (type instanceof NullType) return new FixedWidth.Nothing();
        if (type instanceof DecimalType d) {
            return d.precision() <= 18 ? new FixedWidth.ShortDecimal(d) : new VariableWidth.LongDecimal(d);
        }
        if (type instanceof StructType struct) return new RowCodec(struct);
        if (type instanceof ArrayType array) return new VariableWidth.Array(of(array.elementType()));
        if (type instanceof MapType map) return new VariableWidth.Map(of(map.keyType()), of(map.valueType()));
        if (type instanceof VariantType) return new VariableWidth.Variant();
        if (type instanceof UserDefinedType<?> custom) return of(custom.sqlType());
        throw new IllegalArgumentException("no codec for " + type.sql());
    }

    /** The codec of rows, with its own entry points. */
    public static final class RowCodec extends Codec {
        private final Codec[] fields;
        private final int fixed;
        private final int nulls;

        public RowCodec(StructType type) {
            super(4, true);
            StructField[] declared = type.fields();
            fields = new Codec[declared.length];
            nulls = (declared.length + 7) / 8;
            int size = nulls;
            for (int i = 0; i < fields.length; i++) {
                fields[i] = of(declared[i].dataType());
                size += fields[i].width;
            }
            fixed = size;
        }

        public int size() {
            return fields.length;
        }

        public void write(InternalRow row, WireBuffer out) {
            int start = out.reserve(fixed);
            int at = start + nulls;
            for (int i = 0; i < fields.length; i++) {
                Codec field = fields[i];
                if (row.isNullAt(i)) {
                    out.bytes[start + (i >> 3)] |= (byte) (1 << (i & 7));
                } else if (field.variable) {
                    int before = out.size();
                    field.write(row, i, out, at);
                    out.setInt(at, out.size() - before);
                } else {
                    field.write(row, i, out, at);
                }
                at += field.width;
            }
        }

        public GenericInternalRow read(WireBuffer in) {
            int start = in.require(in.position, fixed);
            int at = start + nulls;
            in.position = start + fixed;
            Object[] values = new Object[fields.length];
            for (int i = 0; i < fields.length; i++) {
                Codec field = fields[i];
                int length = field.variable ? in.intAt(at) : 0;
                if ((in.bytes[start + (i >> 3)] & (1 << (i & 7))) == 0) {
                    int from = field.variable ? in.require(in.position, length) : at;
                    values[i] = field.read(in, from, length);
                    if (field.variable) in.position = from + length;
                }
                at += field.width;
            }
            return new GenericInternalRow(values);
        }

        public byte[] toBytes(InternalRow row) {
            WireBuffer out = new WireBuffer(64);
            write(row, out);
            return java.util.Arrays.copyOf(out.bytes, out.size());
        }

        public GenericInternalRow fromBytes(byte[] bytes) {
            WireBuffer in = new WireBuffer(0);
            in.bytes = bytes;
            in.limit = bytes.length;
            return read(in);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            write(in.getStruct(ordinal, fields.length), out);
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            in.position = at;
            return read(in);
        }
    }
}
