package dev.eagre.python.codec;

import static dev.eagre.python.codec.CodecRows.array;
import static dev.eagre.python.codec.CodecRows.decimal;
import static dev.eagre.python.codec.CodecRows.row;
import static dev.eagre.python.codec.CodecRows.struct;
import static dev.eagre.python.codec.CodecRows.text;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import java.util.Arrays;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.VariantVal;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class DamagedRowsTest {
    private static final long SEED = 20261118;

    static Stream<Arguments> rowsToCutShort() {
        return Stream.of(
                arguments(struct(DataTypes.LongType), row(1L)),
                arguments(struct(DataTypes.StringType), row(text("cut"))),
                arguments(struct(DataTypes.BinaryType), row(new byte[] {1, 2, 3})),
                arguments(struct(DataTypes.createDecimalType(38, 0)), row(decimal("12345678901234567890", 38, 0))),
                arguments(struct(DataTypes.VariantType), row(new VariantVal(new byte[] {1}, new byte[] {2}))),
                arguments(struct(struct(DataTypes.IntegerType)), row(row(5))),
                arguments(struct(new ArrayType(DataTypes.IntegerType, true)), row(array(1, null, 3))),
                arguments(struct(new ArrayType(DataTypes.StringType, true)), row(array(text("a"), text("b")))),
                arguments(struct(new MapType(DataTypes.LongType, DataTypes.StringType, true)),
                        row(new ArrayBasedMapData(array(1L), array(text("one"))))));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("rowsToCutShort")
    void aRowThatIsCutShortIsRefusedWhereverItIsCut(StructType type, InternalRow row) {
        Codec.RowCodec codec = new Codec.RowCodec(type);
        byte[] whole = codec.toBytes(row);
        for (int length = 0; length < whole.length; length++) {
            byte[] cut = Arrays.copyOf(whole, length);
            assertThrows(IndexOutOfBoundsException.class, () -> codec.fromBytes(cut), "cut to " + length);
        }
    }

    /** A message's memory holds bytes of earlier ones behind its end. */
    @ParameterizedTest(name = "{0}")
    @MethodSource("rowsToCutShort")
    void bytesBehindAMessageAreNotTakenForItsRow(StructType type, InternalRow row) {
        Codec.RowCodec codec = new Codec.RowCodec(type);
        WireBuffer wire = new WireBuffer(64);
        codec.write(row, wire);
        wire.limit--;
        assertThrows(IndexOutOfBoundsException.class, () -> codec.read(wire));
    }

    @Test
    void aCountThatTheBytesCannotHoldIsRefusedBeforeMemoryIsTaken() {
        StructType type = struct(new ArrayType(DataTypes.LongType, true));
        Codec.RowCodec codec = new Codec.RowCodec(type);
        byte[] bytes = codec.toBytes(row(array(1L, 2L)));
        for (int count : new int[] {3, 1 << 27, Integer.MAX_VALUE, -1}) {
            WireBuffer wire = new WireBuffer(0);
            wire.put(bytes);
            wire.setInt(5, count);
            assertThrows(RuntimeException.class, () -> codec.read(wire), "count " + count);
        }
    }

    @Test
    void randomBytesNeverCrashTheJvm() {
        Random random = new Random(SEED);
        StructType type = struct(DataTypes.StringType, new ArrayType(DataTypes.StringType, true),
                new MapType(DataTypes.LongType, DataTypes.BinaryType, true), DataTypes.VariantType);
        Codec.RowCodec codec = new Codec.RowCodec(type);
        int refused = 0;
        for (int round = 0; round < 2000; round++) {
            byte[] bytes = new byte[random.nextInt(80)];
            random.nextBytes(bytes);
            try {
                codec.fromBytes(bytes);
            } catch (RuntimeException expected) {
                refused++;
            }
        }
        assertTrue(refused > 1000, refused + " of 2000 were refused");
    }
}
