package dev.eagre.python.codec;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/** The types whose values follow the fixed part of a row, which holds their length. */
final class VariableWidth {
    private VariableWidth() {}

    static final class Text extends Codec {
        Text() {
            super(4, true);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            UTF8String text = in.getUTF8String(ordinal);
            int count = text.numBytes();
            out.ensure(count);
            text.writeToMemory(out.bytes, org.apache.spark.unsafe.Platform.BYTE_ARRAY_OFFSET + out.limit);
            out.limit += count;
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return UTF8String.fromBytes(java.util.Arrays.copyOfRange(in.bytes, at, at + length));
        }
    }

    static final class Binary extends Codec {
        Binary() {
            super(4, true);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            out.put(in.getBinary(ordinal));
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return java.util.Arrays.copyOfRange(in.bytes, at, at + length);
        }
    }

    /** Decimals of up to 38 digits, as the bytes of an unscaled integer. */
    static final class LongDecimal extends Codec {
        private final DecimalType type;

        LongDecimal(DecimalType type) {
            super(4, true);
            this.type = type;
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            Decimal value = in.getDecimal(ordinal, type.precision(), type.scale());
            out.put(value.toJavaBigDecimal().setScale(type.scale()).unscaledValue().toByteArray());
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            BigInteger digits = new BigInteger(in.bytes, at, length);
            return Decimal.apply(new BigDecimal(digits, type.scale()), type.precision(), type.scale());
        }
    }

    static final class Variant extends Codec {
        Variant() {
            super(4, true);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            VariantVal value = in.getVariant(ordinal);
            out.putBlock(value.getValue());
            out.put(value.getMetadata());
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            in.position = at;
            byte[] value = in.takeBlock();
            return new VariantVal(value, in.take(at + length - in.position));
        }
    }

    static final class Array extends Codec {
        private final Codec element;

        Array(Codec element) {
            super(4, true);
            this.element = element;
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            write(in.getArray(ordinal), out);
        }

        void write(ArrayData array, WireBuffer out) {
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
        Object read(WireBuffer in, int at, int length) {
            in.position = at;
            int count = in.takeInt();
            boolean holes = in.takeByte() == 1;
            int bitmap = in.require(in.position, holes ? (count + 7) / 8 : 0);
            in.position += holes ? (count + 7) / 8 : 0;
            in.require(in.position, Math.multiplyExact(count, element.width));
            Object[] values = new Object[count];
            for (int i = 0; i < count; i++) {
                int bytes = element.variable ? in.takeInt() : element.width;
                int from = in.require(in.position, bytes);
                if (!holes || (in.bytes[bitmap + (i >> 3)] & (1 << (i & 7))) == 0) {
                    values[i] = element.read(in, from, bytes);
                }
                in.position = from + bytes;
            }
            return new GenericArrayData(values);
        }
    }

    static final class Map extends Codec {
        private final Array keys;
        private final Array values;

        Map(Codec key, Codec value) {
            super(4, true);
            keys = new Array(key);
            values = new Array(value);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            MapData map = in.getMap(ordinal);
            int length = out.reserve(4);
            keys.write(map.keyArray(), out);
            out.setInt(length, out.size() - length - 4);
            values.write(map.valueArray(), out);
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            in.require(at, 4);
            int split = in.require(at + 4, in.intAt(at)) + in.intAt(at);
            ArrayData known = (ArrayData) keys.read(in, at + 4, 0);
            return new ArrayBasedMapData(known, (ArrayData) values.read(in, split, 0));
        }
    }
}
