package dev.eagre.python.codec;

import static dev.eagre.python.codec.CodecRows.array;
import static dev.eagre.python.codec.CodecRows.decimal;
import static dev.eagre.python.codec.CodecRows.row;
import static dev.eagre.python.codec.CodecRows.struct;
import static dev.eagre.python.codec.CodecRows.text;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class CodecTest {
    private static final long SEED = 20261118;

    private static InternalRow roundTrip(StructType type, InternalRow row) {
        Codec.RowCodec codec = new Codec.RowCodec(type);
        return codec.fromBytes(codec.toBytes(row));
    }

    /** Converts values to Java collections, which compare by value. */
    private static Object plain(Object value) {
        if (value instanceof GenericInternalRow row) return Stream.of(row.values()).map(CodecTest::plain).toList();
        if (value instanceof ArrayBasedMapData map) return List.of(plain(map.keyArray()), plain(map.valueArray()));
        if (value instanceof GenericArrayData array) {
            List<Object> items = new ArrayList<>();
            for (Object one : array.array()) items.add(plain(one));
            return items;
        }
        if (value instanceof byte[] bytes) return "bytes " + Arrays.toString(bytes);
        if (value instanceof VariantVal variant) {
            return Arrays.toString(variant.getValue()) + Arrays.toString(variant.getMetadata());
        }
        return value == null ? "null" : value;
    }

    static Stream<Arguments> valuesOfEachType() {
        String digits = "99999999999999999999999999999999999999";
        return Stream.of(
                arguments(DataTypes.BooleanType, List.of(true, false)),
                arguments(DataTypes.ByteType, List.of((byte) 0, Byte.MIN_VALUE, Byte.MAX_VALUE)),
                arguments(DataTypes.ShortType, List.of((short) 0, Short.MIN_VALUE, Short.MAX_VALUE)),
                arguments(DataTypes.IntegerType, List.of(0, Integer.MIN_VALUE, Integer.MAX_VALUE)),
                arguments(DataTypes.LongType, List.of(0L, Long.MIN_VALUE, Long.MAX_VALUE)),
                arguments(DataTypes.FloatType,
                        List.of(0f, -0f, Float.MIN_VALUE, Float.NEGATIVE_INFINITY, Float.NaN)),
                arguments(DataTypes.DoubleType,
                        List.of(0d, -0d, Double.MIN_VALUE, Double.POSITIVE_INFINITY, Double.NaN)),
                arguments(DataTypes.DateType, List.of(0, -719_162, 2_932_896)),
                arguments(DataTypes.TimestampType, List.of(0L, -1L, 253_402_300_799_999_999L)),
                arguments(DataTypes.TimestampNTZType, List.of(0L, -62_135_596_800_000_000L)),
                arguments(new TimeType(6), List.of(0L, 86_399_999_999_000L)),
                arguments(DataTypes.createDayTimeIntervalType(), List.of(0L, -1L, Long.MAX_VALUE)),
                arguments(DataTypes.createYearMonthIntervalType(), List.of(0, -14, Integer.MAX_VALUE)),
                arguments(DataTypes.createDecimalType(18, 2),
                        List.of(decimal("0", 18, 2), decimal("-9999999999999999.99", 18, 2))),
                arguments(DataTypes.createDecimalType(19, 0),
                        List.of(decimal("0", 19, 0), decimal("-9999999999999999999", 19, 0))),
                arguments(DataTypes.createDecimalType(38, 0), List.of(decimal(digits, 38, 0))),
                arguments(DataTypes.createDecimalType(38, 38), List.of(decimal("-0." + digits, 38, 38))),
                arguments(DataTypes.StringType, List.of(text(""), text("a"), text("Zürich 🌊"), text("a\0b"))),
                arguments(DataTypes.BinaryType, List.of(new byte[0], new byte[] {0, -1, 127})),
                arguments(DataTypes.VariantType,
                        List.of(new VariantVal(new byte[] {12, 1}, new byte[] {1, 0, 0}),
                                new VariantVal(new byte[0], new byte[0]))),
                arguments(struct(DataTypes.IntegerType, DataTypes.StringType),
                        List.of(row(1, text("a")), row(null, null))),
                arguments(struct(), List.of(row())),
                arguments(new ArrayType(DataTypes.IntegerType, true),
                        List.of(array(), array(1, 2, 3), array(null, 2, null), array((Object) null))),
                arguments(new ArrayType(DataTypes.StringType, true),
                        List.of(array(), array(text(""), null, text("b")))),
                arguments(new ArrayType(DataTypes.NullType, true), List.of(array(), array(null, null))),
                arguments(new MapType(DataTypes.StringType, DataTypes.LongType, true),
                        List.of(new ArrayBasedMapData(array(), array()),
                                new ArrayBasedMapData(array(text("a"), text("b")), array(1L, null)))));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("valuesOfEachType")
    void valuesOfEveryTypeSurviveARoundTrip(DataType type, List<Object> values) {
        for (Object value : values) {
            InternalRow back = roundTrip(struct(type), row(value));
            assertEquals(plain(row(value)), plain(back));
        }
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("valuesOfEachType")
    void nullsOfEveryTypeSurviveARoundTrip(DataType type, List<Object> values) {
        StructType around = struct(DataTypes.LongType, type, DataTypes.StringType);
        InternalRow back = roundTrip(around, row(7L, null, text("behind")));
        assertEquals(plain(row(7L, null, text("behind"))), plain(back));
    }

    /** Rows in a plan are UnsafeRows, which store their values as bytes. */
    @Test
    void unsafeRowsAreEncodedLikeOtherRows() {
        List<Arguments> all = valuesOfEachType().toList();
        StructType type = struct(all.stream().map(one -> one.get()[0]).toArray());
        Codec.RowCodec codec = new Codec.RowCodec(type);
        UnsafeProjection unsafe = UnsafeProjection.create(type);
        for (int round = 0; round < 5; round++) {
            Object[] values = new Object[all.size()];
            for (int i = 0; i < values.length; i++) {
                List<?> some = (List<?>) all.get(i).get()[1];
                values[i] = (round + i) % 5 == 4 ? null : some.get(round % some.size());
            }
            assertArrayEquals(codec.toBytes(row(values)), codec.toBytes(unsafe.apply(row(values))));
        }
    }

    @Test
    void theLayoutMatchesThePythonCodec() {
        StructType type = struct(DataTypes.ShortType, DataTypes.StringType, DataTypes.IntegerType,
                new ArrayType(DataTypes.ByteType, true));
        byte[] bytes = new Codec.RowCodec(type).toBytes(row((short) 513, text("hi"), null, array((byte) 5, null)));
        assertArrayEquals(new byte[] {
            0b0100, // the third field is null
            1, 2, // 513
            2, 0, 0, 0, // the length of the text
            0, 0, 0, 0, // zero
            8, 0, 0, 0, // the length of the array
            'h', 'i',
            2, 0, 0, 0, 1, 0b10, 5, 0 // two elements with nulls, the second one null
        }, bytes);
    }

    @Test
    void nestedTypesSurviveARoundTrip() {
        StructType inner = struct(DataTypes.StringType, new ArrayType(DataTypes.DoubleType, true));
        StructType type = struct(
                new ArrayType(new ArrayType(DataTypes.StringType, true), true),
                new MapType(DataTypes.StringType, new ArrayType(inner, true), true),
                new ArrayType(new MapType(DataTypes.IntegerType, inner, true), true),
                DataTypes.LongType);
        InternalRow value = row(
                array(array(text("a"), null), null, array()),
                new ArrayBasedMapData(
                        array(text("x"), text("y")), array(array(row(text("in"), array(1.5, null)), null), null)),
                array(new ArrayBasedMapData(array(1), array(row(null, array()))), null),
                Long.MIN_VALUE);
        assertEquals(plain(value), plain(roundTrip(type, value)));
    }

    @Test
    void moreThanEightFieldsNeedMoreThanOneNullByte() {
        for (int fields : new int[] {7, 8, 9, 16, 17, 100}) {
            Object[] types = new Object[fields];
            Object[] values = new Object[fields];
            Arrays.fill(types, DataTypes.IntegerType);
            for (int i = 0; i < fields; i++) values[i] = i % 3 == 0 ? null : i;
            InternalRow back = roundTrip(struct(types), row(values));
            assertEquals(plain(row(values)), plain(back), fields + " fields");
        }
    }

    @Test
    void hugeValuesSurviveARoundTrip() {
        UTF8String long1 = text("x".repeat(3 << 20));
        Object[] many = new Object[100_000];
        for (int i = 0; i < many.length; i++) many[i] = i % 7 == 0 ? null : i;
        StructType type = struct(DataTypes.StringType, new ArrayType(DataTypes.IntegerType, true), DataTypes.LongType);
        InternalRow back = roundTrip(type, row(long1, array(many), 9L));
        assertEquals(long1, back.getUTF8String(0));
        assertEquals(plain(array(many)), plain(back.getArray(1)));
        assertEquals(9L, back.getLong(2));
    }

    @Test
    void rowsFollowEachOtherInOneMessage() {
        Codec.RowCodec codec = new Codec.RowCodec(struct(DataTypes.StringType, DataTypes.LongType));
        WireBuffer wire = new WireBuffer(0);
        for (int i = 0; i < 1000; i++) codec.write(row(i % 5 == 0 ? null : text("r" + i), (long) i), wire);
        for (int i = 0; i < 1000; i++) {
            InternalRow back = codec.read(wire);
            assertEquals(i % 5 == 0, back.isNullAt(0));
            assertEquals(i, back.getLong(1));
        }
        assertEquals(wire.size(), wire.position);
    }

    @Test
    void decodedRowsDoNotShareTheMemoryOfTheMessage() {
        Codec.RowCodec codec = new Codec.RowCodec(struct(DataTypes.StringType, DataTypes.BinaryType));
        WireBuffer wire = new WireBuffer(64);
        codec.write(row(text("first"), new byte[] {1}), wire);
        InternalRow back = codec.read(wire);
        Arrays.fill(wire.bytes, (byte) 'z');
        assertEquals(text("first"), back.getUTF8String(0));
        assertArrayEquals(new byte[] {1}, back.getBinary(1));
    }

    @Test
    void aDecimalIsWrittenInTheScaleOfItsType() {
        DecimalType type = DataTypes.createDecimalType(38, 10);
        InternalRow back = roundTrip(struct(type), row(decimal("1.5", 38, 1)));
        assertEquals(0, new BigDecimal("1.5").compareTo(back.getDecimal(0, 38, 10).toJavaBigDecimal()));
    }

    @Test
    void aUserDefinedTypeIsEncodedAsItsSqlType() {
        InternalRow back = roundTrip(struct(new Celsius()), row(21.5));
        assertEquals(21.5, back.getDouble(0));
    }

    @Test
    void aTypeWithoutACodecIsReported() {
        Exception error =
                assertThrows(IllegalArgumentException.class, () -> Codec.of(DataTypes.CalendarIntervalType));
        assertEquals("no codec for INTERVAL", error.getMessage());
    }

    /** Random rows of a random shape; a failure names its round. */
    @Test
    void randomRowsSurviveARoundTrip() {
        Random random = new Random(SEED);
        for (int round = 0; round < 500; round++) {
            Object[] types = new Object[random.nextInt(12)];
            Object[] values = new Object[types.length];
            for (int i = 0; i < types.length; i++) types[i] = type(random, 2);
            for (int i = 0; i < types.length; i++) values[i] = value((DataType) types[i], random);
            StructType type = struct(types);
            InternalRow back = roundTrip(type, row(values));
            assertEquals(plain(row(values)), plain(back), "seed " + SEED + ", round " + round + ": " + type.sql());
        }
    }

    private static DataType type(Random random, int depth) {
        return switch (random.nextInt(depth > 0 ? 9 : 6)) {
            case 0 -> DataTypes.BooleanType;
            case 1 -> DataTypes.LongType;
            case 2 -> DataTypes.DoubleType;
            case 3 -> DataTypes.StringType;
            case 4 -> DataTypes.BinaryType;
            case 5 -> DataTypes.createDecimalType(30, 4);
            case 6 -> new ArrayType(type(random, depth - 1), true);
            case 7 -> new MapType(DataTypes.LongType, type(random, depth - 1), true);
            default -> struct(type(random, depth - 1), type(random, depth - 1));
        };
    }

    private static Object value(DataType type, Random random) {
        if (random.nextInt(5) == 0) return null;
        if (type.equals(DataTypes.BooleanType)) return random.nextBoolean();
        if (type.equals(DataTypes.LongType)) return random.nextLong();
        if (type.equals(DataTypes.DoubleType)) return random.nextGaussian();
        if (type.equals(DataTypes.StringType)) return text("é".repeat(random.nextInt(20)));
        if (type.equals(DataTypes.BinaryType)) {
            byte[] bytes = new byte[random.nextInt(20)];
            random.nextBytes(bytes);
            return bytes;
        }
        if (type instanceof DecimalType) {
            return Decimal.apply(new BigDecimal(new BigInteger(95, random).subtract(BigInteger.TWO.pow(94)), 4), 30, 4);
        }
        if (type instanceof ArrayType array) return items(array.elementType(), random.nextInt(10), random);
        if (type instanceof MapType map) {
            GenericArrayData values = items(map.valueType(), random.nextInt(5), random);
            Object[] keys = new Object[values.numElements()];
            for (int i = 0; i < keys.length; i++) keys[i] = (long) i;
            return new ArrayBasedMapData(array(keys), values);
        }
        StructType struct = (StructType) type;
        return row(value(struct.fields()[0].dataType(), random), value(struct.fields()[1].dataType(), random));
    }

    private static GenericArrayData items(DataType type, int count, Random random) {
        Object[] values = new Object[count];
        for (int i = 0; i < count; i++) values[i] = value(type, random);
        return array(values);
    }

    @Test
    void aVoidValueCannotBeWritten() {
        Codec nothing = Codec.of(DataTypes.NullType);
        assertFalse(nothing.variable);
        assertThrows(IllegalStateException.class, () -> nothing.write(row(1), 0, new WireBuffer(0), 0));
        assertNotEquals(0, Codec.of(DataTypes.BooleanType).width);
    }

    /** A user-defined type over a double. */
    static final class Celsius extends UserDefinedType<Double> {
        @Override
        public DataType sqlType() {
            return DataTypes.DoubleType;
        }

        @Override
        public Object serialize(Double degrees) {
            return degrees;
        }

        @Override
        public Double deserialize(Object stored) {
            return (Double) stored;
        }

        @Override
        public Class<Double> userClass() {
            return Double.class;
        }
    }
}
