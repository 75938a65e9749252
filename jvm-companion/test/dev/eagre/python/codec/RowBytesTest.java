package dev.eagre.python.codec;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.eagre.spark.RowSteps;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

class RowBytesTest {
    private static final StructType TYPE =
            new StructType().add("name", DataTypes.StringType).add("count", DataTypes.LongType);

    private static final RowBytes PACK = over(false, new BoundReference(0, TYPE, true));
    private static final RowBytes UNPACK = over(true, new BoundReference(0, DataTypes.BinaryType, true));

    private static RowBytes over(boolean reading, Expression child) {
        return new RowBytes(TYPE, reading, RowSteps.sequence(List.of(child)));
    }

    private static InternalRow row(Object... values) {
        return new GenericInternalRow(values);
    }

    @Test
    void aStructSurvivesARoundTrip() {
        InternalRow struct = row(UTF8String.fromString("a"), 5L);
        Object bytes = PACK.eval(row(struct));
        assertArrayEquals(new Codec.RowCodec(TYPE).toBytes(struct), (byte[]) bytes);
        assertEquals(struct, UNPACK.eval(row(bytes)));
    }

    @Test
    void nullStaysNull() {
        assertNull(PACK.eval(row((Object) null)));
        assertNull(UNPACK.eval(row((Object) null)));
    }

    @Test
    void malformedBytesAreRefused() {
        assertThrows(IndexOutOfBoundsException.class, () -> UNPACK.eval(row((Object) new byte[] {0, 9})));
    }

    @Test
    void theTypeDependsOnTheDirection() {
        assertEquals(DataTypes.BinaryType, PACK.dataType());
        assertEquals(TYPE, UNPACK.dataType());
    }

    /** Spark compares and copies expressions while it plans. */
    @Test
    void expressionsCompareByValue() {
        RowBytes same = over(false, new BoundReference(0, TYPE, true));
        assertEquals(PACK, same);
        assertEquals(PACK.hashCode(), same.hashCode());
        assertNotEquals(PACK, UNPACK);
        assertNotEquals(PACK, over(false, new BoundReference(1, TYPE, true)));
        assertEquals(PACK, PACK.withNewChildrenInternal(PACK.children().toIndexedSeq()));
        assertEquals(List.of(TYPE, false, PACK.children()),
                List.of(PACK.productElement(0), PACK.productElement(1), PACK.productElement(2)));
    }
}
