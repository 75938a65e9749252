package dev.eagre.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.eagre.spark.Tasks;
import java.nio.charset.StandardCharsets;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import scala.reflect.ClassTag$;

/** The replay filter. */
class ReplayFilterTest {
    private static final StructType PROVENANCE = new StructType()
            .add("topic", DataTypes.StringType)
            .add("partition", DataTypes.IntegerType)
            .add("offset", DataTypes.LongType)
            .add("timestamp", DataTypes.TimestampType);

    private final DeliveredOffsets delivered = new DeliveredOffsets();

    private ReplayFilter filter(StructType source, String prefix) {
        return new ReplayFilter(new BoundReference(0, source, true), prefix, new LocalBroadcast(delivered));
    }

    private final ReplayFilter filter = filter(PROVENANCE, "score 3");

    private static InternalRow row(Object... source) {
        return new GenericInternalRow(new Object[] {new GenericInternalRow(source)});
    }

    private static InternalRow at(int partition, long offset) {
        return row(UTF8String.fromString("in"), partition, offset, 1_700_000_000_123_456L);
    }

    private static String text(Object bytes) {
        return bytes == null ? null : new String((byte[]) bytes, StandardCharsets.UTF_8);
    }

    private static String code(ReplayFilter filter, InternalRow row) {
        return assertThrows(IllegalStateException.class, () -> filter.eval(row)).getMessage().split(":")[0];
    }

    @Test
    void aNewResultHasAnIdentityAndTheTimeOfItsRecord() {
        assertEquals("score 3 in/2/77/0 1700000000123", text(filter.eval(at(2, 77))));
    }

    @Test
    void resultsOfOneRowAreNumbered() {
        assertEquals("score 3 in/2/77/0 1700000000123", text(filter.eval(at(2, 77))));
        assertEquals("score 3 in/2/77/1 1700000000123", text(filter.eval(at(2, 77))));
        assertEquals("score 3 in/2/78/0 1700000000123", text(filter.eval(at(2, 78))));
    }

    @Test
    void deliveredResultsAreFilteredAndGapsAreNot() {
        delivered.add("in", 0, 10, 0);
        delivered.add("in", 0, 12, 1);
        assertNull(filter.eval(at(0, 10)));
        assertEquals("score 3 in/0/11/0 1700000000123", text(filter.eval(at(0, 11))));
        assertEquals("score 3 in/0/12/0 1700000000123", text(filter.eval(at(0, 12))));
        assertNull(filter.eval(at(0, 12)), "the second result of the row was delivered, the first was not");
        assertEquals("score 3 in/1/10/0 1700000000123", text(filter.eval(at(1, 10))));
    }

    @Test
    void aRecordWithoutATimeHasTimeMinusOne() {
        assertEquals("score 3 in/0/1/0 -1", text(filter.eval(row(UTF8String.fromString("in"), 0, 1L, null))));
        StructType timeless = new StructType(java.util.Arrays.copyOf(PROVENANCE.fields(), 3));
        assertEquals("score 3 in/0/1/0 -1",
                text(filter(timeless, "score 3").eval(row(UTF8String.fromString("in"), 0, 1L))));
    }

    @Test
    void aRowWithoutProvenanceFailsTheQuery() {
        assertEquals("EXACTLY_ONCE_ORIGIN", code(filter, new GenericInternalRow(new Object[] {null})));
        assertEquals("EXACTLY_ONCE_ORIGIN", code(filter, row(UTF8String.fromString("in"), null, 1L, null)));
        assertEquals("EXACTLY_ONCE_ORIGIN", code(filter, row(UTF8String.fromString("in"), 0, null, null)));
    }

    @Test
    void aQueryThatWasNotOpenedIsRefused() {
        assertEquals("EXACTLY_ONCE_UNOPENED", code(filter(PROVENANCE, ""), at(0, 1)));
    }

    /** The output of the first attempt is unknown. */
    @Test
    void aRetriedTaskIsRefused() {
        Tasks.in(Tasks.task(0), () -> filter(PROVENANCE, "score 3").eval(at(0, 1)));
        String code = Tasks.in(Tasks.task(1), () -> code(filter(PROVENANCE, "score 3"), at(0, 1)));
        assertEquals("EXACTLY_ONCE_RETRY", code);
    }

    @Test
    void aKeyWithRowsOfTwoPartitionsFailsTheQuery() {
        ReplayFilter aligned = filter(PROVENANCE.add("least", DataTypes.IntegerType), "score 3");
        aligned.eval(row(UTF8String.fromString("in"), 1, 5L, null, 1));
        assertEquals("KEY_NOT_ALIGNED", code(aligned, row(UTF8String.fromString("in"), 2, 6L, null, 1)));
    }

    /** Otherwise Spark could move it, copy it, or evaluate it twice. */
    @Test
    void sparkTreatsItAsNondeterministic() {
        assertFalse(filter.deterministic());
        assertFalse(filter.foldable());
        assertTrue(filter.stateful());
        assertTrue(filter.nullable());
        assertNotEquals(filter, filter(PROVENANCE, "score 4"));
    }

    /** A broadcast that was never sent. */
    private static final class LocalBroadcast extends Broadcast<DeliveredOffsets> {
        private final transient DeliveredOffsets held;

        LocalBroadcast(DeliveredOffsets held) {
            super(0, ClassTag$.MODULE$.apply(DeliveredOffsets.class));
            this.held = held;
        }

        @Override
        public DeliveredOffsets getValue() {
            return held;
        }

        @Override
        public void doUnpersist(boolean blocking) {}

        @Override
        public void doDestroy(boolean blocking) {}
    }
}
