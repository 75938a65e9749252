package dev.eagre.connectors.upsert;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.eagre.commit.RecordPosition;
import java.util.List;
import org.junit.jupiter.api.Test;

class RowVersionTest {
    private static RowVersion version(long offset, int ordinal, long time) {
        return new RowVersion("payments/0", offset, ordinal, time);
    }

    @Test
    void theOffsetDecidesBeforeTheOrdinalAndTheTime() {
        assertTrue(version(2, 0, 0).newerThan(version(1, 9, 999)));
        assertFalse(version(1, 9, 999).newerThan(version(2, 0, 0)));
    }

    @Test
    void laterRowsOfOneRecordAreNewer() {
        assertTrue(version(1, 1, 0).newerThan(version(1, 0, 0)));
        assertFalse(version(1, 0, 0).newerThan(version(1, 1, 0)));
    }

    @Test
    void aVersionIsNotNewerThanItself() {
        assertFalse(version(1, 1, 5).newerThan(version(1, 1, 5)));
    }

    @Test
    void sourcesCompareByName() {
        assertTrue(version(1, 0, 0).sameSource(version(2, 3, 4)));
        assertFalse(version(1, 0, 0).sameSource(new RowVersion("payments/1", 1, 0, 0)));
    }

    @Test
    void theStoredTimeNeverDecreases() {
        assertEquals(version(2, 0, 100), version(2, 0, 50).over(version(1, 0, 100)));
        assertEquals(version(2, 0, 150), version(2, 0, 150).over(version(1, 0, 100)));
    }

    @Test
    void theNewerRowIsWrittenWithTheLaterTime() {
        Upsert old = new Upsert(List.of("a"), List.of("1"), version(1, 0, 100), null);
        Upsert next = new Upsert(List.of("a"), List.of("2"), version(2, 0, 50), null);
        assertEquals(new Upsert(List.of("a"), List.of("2"), version(2, 0, 100), null), old.or(next));
        assertEquals(next, next.or(old), "an older row changes nothing");
    }

    @Test
    void theIdOfATopicMayContainASlash() {
        RecordPosition record = new RecordPosition("shop", 3, 7);
        assertEquals(record, RowVersion.recordOf("shop/3", 7));
        assertEquals(record, RowVersion.recordOf("shop@fLk_0cXbQ1qV/mzR46taEuDeXpUgQ/3", 7));
        assertEquals(record, RowVersion.recordOf("shop@/R46taEuDeXp/3", 7));
    }
}
