package dev.eagre.deadletter;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import dev.eagre.commit.RecordPosition;
import dev.eagre.connectors.upsert.DatabaseException;
import dev.eagre.connectors.upsert.WriteFailed;
import java.net.ConnectException;
import org.apache.spark.SparkException;
import org.junit.jupiter.api.Test;

class SuspectRecordsTest {
    private static final RecordPosition IN_WORK = new RecordPosition("payments", 0, 17);
    private static final RecordPosition EARLIER = new RecordPosition("payments", 0, 12);

    private static RecordPosition blamed(Exception error) {
        return SuspectRecords.culprit(IN_WORK, new SparkException("the task failed", error));
    }

    @Test
    void aRowIsBlamedForItsOwnError() {
        assertEquals(IN_WORK, blamed(new ArithmeticException("/ by zero")));
        assertEquals(IN_WORK, blamed(new DatabaseException("KEY_NULL", "a row has no value in its key.", "filter it.")));
    }

    /** Writes are asynchronous: the task learns of their errors while it processes a later row. */
    @Test
    void noRowIsBlamedForTheWriteOfAnother() {
        DatabaseException refusal = new DatabaseException("DATABASE_REFUSED", "the value is too long.", "no");
        assertEquals(EARLIER, blamed(new WriteFailed(refusal, EARLIER)));
        assertNull(blamed(new WriteFailed(refusal, null)));
    }

    @Test
    void noRowIsBlamedForAnOutage() {
        assertNull(blamed(new ConnectException("connection refused")));
    }
}
