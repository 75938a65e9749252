package dev.eagre.python.codec;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.Decimal$;
import org.apache.spark.sql.types.DecimalType;

/** The types whose values are in the fixed part of a row. */
final class FixedWidth {
    private FixedWidth() {}

    static final class Bool extends Codec {
        Bool() {
            super(1, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            out.setByte(at, in.getBoolean(ordinal) ? 1 : 0);
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return in.bytes[at] != 0;
        }
    }

    static final class Int8 extends Codec {
        Int8() {
            super(1, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            out.setByte(at, in.getByte(ordinal));
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return in.bytes[at];
        }
    }

    static final class Int16 extends Codec {
        Int16() {
            super(2, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            out.setShort(at, in.getShort(ordinal));
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return in.shortAt(at);
        }
    }

    static final class Int32 extends Codec {
        Int32() {
            super(4, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            out.setInt(at, in.getInt(ordinal));
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return in.intAt(at);
        }
    }

    static final class Int64 extends Codec {
        Int64() {
            super(8, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            out.setLong(at, in.getLong(ordinal));
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return in.longAt(at);
        }
    }

    static final class Float32 extends Codec {
        Float32() {
            super(4, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            out.setInt(at, Float.floatToRawIntBits(in.getFloat(ordinal)));
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return Float.intBitsToFloat(in.intAt(at));
        }
    }

    static final class Float64 extends Codec {
        Float64() {
            super(8, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            out.setLong(at, Double.doubleToRawLongBits(in.getDouble(ordinal)));
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return Double.longBitsToDouble(in.longAt(at));
        }
    }

    /** The type of {@code NULL}: it has no other value. */
    static final class Nothing extends Codec {
        Nothing() {
            super(0, false);
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            throw new IllegalStateException("a value of type void is always null");
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return null;
        }
    }

    /** Decimals whose digits fit into a long. */
    static final class ShortDecimal extends Codec {
        private final DecimalType type;

        ShortDecimal(DecimalType type) {
            super(8, false);
            this.type = type;
        }

        @Override
        void write(SpecializedGetters in, int ordinal, WireBuffer out, int at) {
            out.setLong(at, in.getDecimal(ordinal, type.precision(), type.scale()).toUnscaledLong());
        }

        @Override
        Object read(WireBuffer in, int at, int length) {
            return Decimal$.MODULE$.createUnsafe(in.longAt(at), type.precision(), type.scale());
        }
    }
}
