package dev.eagre.python;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.Decimal$;
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
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/**
 * A Spark type as bytes; {@code eagre_worker/codec.py} is the other half.
 *
 * <p>A row is a bitmap of its nulls, then for each field either its value, if the type has a fixed
 * width, or the length of its bytes; then those bytes, field by field. An array is a count, a flag
 * whether a bitmap of nulls follows, and its elements; a map is an array of keys behind its length,
 * and an array of values.
 */
abstract class Codec {
    /** How many bytes a value takes in the fixed part of a row. */
    final int width;

    /** Whether the fixed part only holds the length. */
    final boolean variable;

    private Codec(int width, boolean variable) {
        this.width = width;
        this.variable = variable;
    }

    /** Writes a value that is not null: at {@code at} if its width is fixed, else at the end. */
    abstract void write(SpecializedGetters in, int ordinal, Wire out, int at);

    /** Reads a value: at {@code at}, and of {@code length} bytes if that varies. */
    abstract Object read(Wire in, int at, int length);

    /** Gives the codec of a type; the Python side refuses those that have none. */
    static Codec of(DataType type) {
        if (type instanceof StringType) return new Text();
        if (type instanceof BinaryType) return new Binary();
        if (type instanceof LongType || type instanceof TimestampType) return new Int64();
        if (type instanceof TimestampNTZType || type instanceof DayTimeIntervalType) return new Int64();
        if (type instanceof TimeType) return new Int64();
        if (type instanceof IntegerType || type instanceof DateType) return new Int32();
        if (type instanceof YearMonthIntervalType) return new Int32();
        if (type instanceof DoubleType) return new Float64();
        if (type instanceof BooleanType) return new Bool();
        if (type instanceof FloatType) return new Float32();
        if (type instanceof ShortType) return new Int16();
        if (type instanceof ByteType) return new Int8();
        if (type instanceof NullType) return new Nothing();
        if (type instanceof DecimalType d) return d.precision() <= 18 ? new ShortDecimal(d) : new LongDecimal(d);
        if (type instanceof StructType struct) return new RowCodec(struct);
        if (type instanceof ArrayType array) return new Array(of(array.elementType()));
        if (type instanceof MapType map) return new Map(of(map.keyType()), of(map.valueType()));
        if (type instanceof VariantType) return new Variant();
        if (type instanceof UserDefinedType<?> own) return of(own.sqlType());
        throw new IllegalArgumentException("no codec for " + type.sql());
    }

    /** Rows: a codec with entry points of its own. */
    static final class RowCodec extends Codec {
        private final Codec[] fields;
        private final int fixed;
        private final int nulls;

        RowCodec(StructType type) {
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

        int size() {
            return fields.length;
        }

        void write(InternalRow row, Wire out) {
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

        GenericInternalRow read(Wire in) {
            int start = in.position;
            int at = start + nulls;
            in.position = start + fixed;
            Object[] values = new Object[fields.length];
            for (int i = 0; i < fields.length; i++) {
                Codec field = fields[i];
                int length = field.variable ? in.intAt(at) : 0;
                if ((in.bytes[start + (i >> 3)] & (1 << (i & 7))) == 0) {
                    int from = field.variable ? in.position : at;
                    values[i] = field.read(in, from, length);
                    if (field.variable) in.position = from + length;
                }
                at += field.width;
            }
            return new GenericInternalRow(values);
        }

        byte[] toBytes(InternalRow row) {
            Wire out = new Wire(64);
            write(row, out);
            return java.util.Arrays.copyOf(out.bytes, out.size());
        }

        GenericInternalRow fromBytes(byte[] bytes) {
            Wire in = new Wire(0);
            in.bytes = bytes;
            return read(in);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            write(in.getStruct(ordinal, fields.length), out);
        }

        @Override
        Object read(Wire in, int at, int length) {
            in.position = at;
            return read(in);
        }
    }

    private static final class Bool extends Codec {
        Bool() {
            super(1, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            out.setByte(at, in.getBoolean(ordinal) ? 1 : 0);
        }

        @Override
        Object read(Wire in, int at, int length) {
            return in.bytes[at] != 0;
        }
    }

    private static final class Int8 extends Codec {
        Int8() {
            super(1, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            out.setByte(at, in.getByte(ordinal));
        }

        @Override
        Object read(Wire in, int at, int length) {
            return in.bytes[at];
        }
    }

    private static final class Int16 extends Codec {
        Int16() {
            super(2, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            out.setShort(at, in.getShort(ordinal));
        }

        @Override
        Object read(Wire in, int at, int length) {
            return in.shortAt(at);
        }
    }

    private static final class Int32 extends Codec {
        Int32() {
            super(4, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            out.setInt(at, in.getInt(ordinal));
        }

        @Override
        Object read(Wire in, int at, int length) {
            return in.intAt(at);
        }
    }

    private static final class Int64 extends Codec {
        Int64() {
            super(8, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            out.setLong(at, in.getLong(ordinal));
        }

        @Override
        Object read(Wire in, int at, int length) {
            return in.longAt(at);
        }
    }

    private static final class Float32 extends Codec {
        Float32() {
            super(4, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            out.setInt(at, Float.floatToRawIntBits(in.getFloat(ordinal)));
        }

        @Override
        Object read(Wire in, int at, int length) {
            return Float.intBitsToFloat(in.intAt(at));
        }
    }

    private static final class Float64 extends Codec {
        Float64() {
            super(8, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            out.setLong(at, Double.doubleToRawLongBits(in.getDouble(ordinal)));
        }

        @Override
        Object read(Wire in, int at, int length) {
            return Double.longBitsToDouble(in.longAt(at));
        }
    }

    /** The type of {@code NULL}: it has no other value. */
    private static final class Nothing extends Codec {
        Nothing() {
            super(0, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            throw new IllegalStateException("a value of type void is always null");
        }

        @Override
        Object read(Wire in, int at, int length) {
            return null;
        }
    }

    private static final class Text extends Codec {
        Text() {
            super(4, true);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            UTF8String text = in.getUTF8String(ordinal);
            int count = text.numBytes();
            out.ensure(count);
            text.writeToMemory(out.bytes, org.apache.spark.unsafe.Platform.BYTE_ARRAY_OFFSET + out.limit);
            out.limit += count;
        }

        @Override
        Object read(Wire in, int at, int length) {
            return UTF8String.fromBytes(java.util.Arrays.copyOfRange(in.bytes, at, at + length));
        }
    }

    private static final class Binary extends Codec {
        Binary() {
            super(4, true);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            out.put(in.getBinary(ordinal));
        }

        @Override
        Object read(Wire in, int at, int length) {
            return java.util.Arrays.copyOfRange(in.bytes, at, at + length);
        }
    }

    /** Decimals whose digits fit into a long. */
    private static final class ShortDecimal extends Codec {
        private final DecimalType type;

        ShortDecimal(DecimalType type) {
            super(8, false);
            this.type = type;
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            out.setLong(at, in.getDecimal(ordinal, type.precision(), type.scale()).toUnscaledLong());
        }

        @Override
        Object read(Wire in, int at, int length) {
            return Decimal$.MODULE$.createUnsafe(in.longAt(at), type.precision(), type.scale());
        }
    }

    /** Decimals of up to 38 digits, as the bytes of an unscaled integer. */
    private static final class LongDecimal extends Codec {
        private final DecimalType type;

        LongDecimal(DecimalType type) {
            super(4, true);
            this.type = type;
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            Decimal value = in.getDecimal(ordinal, type.precision(), type.scale());
            out.put(value.toJavaBigDecimal().setScale(type.scale()).unscaledValue().toByteArray());
        }

        @Override
        Object read(Wire in, int at, int length) {
            BigInteger digits = new BigInteger(in.bytes, at, length);
            return Decimal.apply(new BigDecimal(digits, type.scale()), type.precision(), type.scale());
        }
    }

    private static final class Variant extends Codec {
        Variant() {
            super(4, true);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            VariantVal value = in.getVariant(ordinal);
            out.putBlock(value.getValue());
            out.put(value.getMetadata());
        }

        @Override
        Object read(Wire in, int at, int length) {
            in.position = at;
            byte[] value = in.takeBlock();
            return new VariantVal(value, in.take(at + length - in.position));
        }
    }

    private static final class Array extends Codec {
        private final Codec element;

        Array(Codec element) {
            super(4, true);
            this.element = element;
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            write(in.getArray(ordinal), out);
        }

        void write(ArrayData array, Wire out) {
            int count = array.numElements();
            boolean holes = hasNull(array);
            out.putInt(count);
            out.putByte(holes ? 1 : 0);
            int bitmap = out.reserve(holes ? (count + 7) / 8 : 0);
            int start = out.reserve(element.variable ? 0 : element.width * count);
            for (int i = 0; i < count; i++) {
                boolean present = !array.isNullAt(i);
                if (!present) {
                    out.bytes[bitmap + (i >> 3)] |= (byte) (1 << (i & 7));
                }
                if (element.variable) {
                    int length = out.reserve(4);
                    if (present) element.write(array, i, out, 0);
                    out.setInt(length, out.size() - length - 4);
                } else if (present) {
                    element.write(array, i, out, start + i * element.width);
                }
            }
        }

        private static boolean hasNull(ArrayData array) {
            for (int i = 0; i < array.numElements(); i++) {
                if (array.isNullAt(i)) return true;
            }
            return false;
        }

        @Override
        Object read(Wire in, int at, int length) {
            in.position = at;
            int count = in.takeInt();
            boolean holes = in.takeByte() == 1;
            int bitmap = in.position;
            in.position += holes ? (count + 7) / 8 : 0;
            Object[] values = new Object[count];
            for (int i = 0; i < count; i++) {
                int bytes = element.variable ? in.takeInt() : element.width;
                int from = in.position;
                if (!holes || (in.bytes[bitmap + (i >> 3)] & (1 << (i & 7))) == 0) {
                    values[i] = element.read(in, from, bytes);
                }
                in.position = from + bytes;
            }
            return new GenericArrayData(values);
        }
    }

    private static final class Map extends Codec {
        private final Array keys;
        private final Array values;

        Map(Codec key, Codec value) {
            super(4, true);
            keys = new Array(key);
            values = new Array(value);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, Wire out, int at) {
            MapData map = in.getMap(ordinal);
            int length = out.reserve(4);
            keys.write(map.keyArray(), out);
            out.setInt(length, out.size() - length - 4);
            values.write(map.valueArray(), out);
        }

        @Override
        Object read(Wire in, int at, int length) {
            int split = at + 4 + in.intAt(at);
            ArrayData known = (ArrayData) keys.read(in, at + 4, 0);
            return new ArrayBasedMapData(known, (ArrayData) values.read(in, split, 0));
        }
    }
}
