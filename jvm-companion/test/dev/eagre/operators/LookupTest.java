package dev.eagre.operators;

import static dev.eagre.operators.Keyed.SECOND;
import static dev.eagre.operators.Keyed.at;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** Results are the row and the table's row; arguments are the side and whether the table's row is deleted. */
class LookupTest {
    private static final int TABLE = Lookup.TABLE;
    private static final int ROW = 1 - TABLE;

    private static Keyed lookup(boolean versioned, boolean inner, long waitsMs) {
        return lookup(versioned, inner, waitsMs, 1_000);
    }

    private static Keyed lookup(boolean versioned, boolean inner, long waitsMs, int maxBytes) {
        return lookup(versioned, inner, waitsMs, maxBytes, "k");
    }

    private static Keyed lookup(boolean versioned, boolean inner, long waitsMs, int maxBytes, String key) {
        return new Keyed(Lookup::new, "'side':" + Keyed.FIRST_ARGUMENT + ",'versioned':" + versioned + ",'inner':"
                + inner + ",'history':" + 10 * SECOND + ",'waits_ms':" + waitsMs + ",'keeps_ms':3600000,'max_bytes':" + maxBytes, key);
    }

    @Test
    void aRowGetsTheLatestVersion() {
        Keyed keyed = lookup(false, false, 0);
        keyed.put(at(5, "v1", TABLE, false), at(1, "v2", TABLE, false));
        assertEquals(List.of("r v2"), keyed.put(at(0, "r", ROW, false)), "the version that arrived last");
    }

    @Test
    void aRowGetsTheVersionOfItsTime() {
        Keyed keyed = lookup(true, false, 0);
        keyed.put(at(0, "v1", TABLE, false), at(5, "v2", TABLE, false));
        assertEquals(List.of("r v1", "s v2", "t v2"),
                keyed.put(at(4.9, "r", ROW, false), at(5, "s", ROW, false), at(9, "t", ROW, false)));
    }

    @Test
    void aRowWithoutAVersionIsEmittedAloneOrDropped() {
        assertEquals(List.of("r null"), lookup(false, false, 0).put(at(0, "r", ROW, false)));
        assertEquals(List.of(), lookup(false, true, 0).put(at(0, "r", ROW, false)));
    }

    @Test
    void aDeletedVersionDoesNotMatch() {
        Keyed keyed = lookup(true, false, 0);
        keyed.put(at(0, "v", TABLE, false), at(5, "d", TABLE, true));
        assertEquals(List.of("r v", "s null"), keyed.put(at(4, "r", ROW, false), at(6, "s", ROW, false)));
        Keyed latest = lookup(false, false, 0);
        latest.put(at(0, "v", TABLE, false), at(1, "d", TABLE, true));
        assertTrue(latest.isExpired());
    }

    @Test
    void aRowWaitsForItsVersion() {
        Keyed keyed = lookup(false, false, 2_000);
        assertEquals(List.of(), keyed.put(at(0, "r", ROW, false)));
        assertEquals(List.of("r v"), keyed.put(at(0, "v", TABLE, false)));
        Keyed alone = lookup(false, false, 2_000);
        alone.put(at(0, "r", ROW, false));
        alone.restart();
        assertEquals(List.of(), alone.pass(1.9));
        assertEquals(List.of("r null"), alone.pass(0.2));
    }

    @Test
    void aKeyHoldsALimitedNumberOfBytes() {
        Keyed versions = lookup(true, false, 0, 4);
        versions.put(at(0, "v1", TABLE, false), at(1, "v2", TABLE, false), at(2, "v3", TABLE, false));
        assertEquals(List.of("r v2"), versions.put(at(3, "r", ROW, false)), "the third version is rejected");
        versions.put(at(20, "v4", TABLE, false));
        assertEquals(List.of("s v4"), versions.put(at(20, "s", ROW, false)), "versions that are past make room");
        Keyed waiting = lookup(false, false, 2_000, 4);
        waiting.put(at(0, "r1", ROW, false), at(0, "r2", ROW, false), at(0, "r3", ROW, false));
        assertEquals(List.of("r1 v1", "r2 v1"), waiting.put(at(0, "v1", TABLE, false)));
        assertEquals(List.of("r4 v1"), waiting.put(at(0, "r4", ROW, false)), "a row that does not wait needs no room");
    }

    @Test
    void versionsBeyondTheHistoryExpireExceptTheLatest() {
        Keyed keyed = lookup(true, false, 0);
        keyed.put(at(0, "v1", TABLE, false), at(1, "v2", TABLE, false));
        int two = keyed.stateBytes();
        keyed.put(at(20, "r", ROW, false));
        assertTrue(keyed.stateBytes() < two);
        assertEquals(List.of("s v2"), keyed.put(at(10, "s", ROW, false)));
        assertEquals(List.of("late null"), keyed.put(at(9, "late", ROW, false)));
    }

    /** At the first start both topics are read at the same time, and the table was written long ago. */
    @Test
    void aVersionOlderThanTheHistoryIsValidIfThereIsNoNewerOne() {
        Keyed keyed = lookup(true, false, 2_000);
        assertEquals(List.of(), keyed.put(at(1000, "r", ROW, false)));
        assertEquals(List.of("r v1"), keyed.put(at(5, "v1", TABLE, false)));
        assertEquals(List.of("s v2"), keyed.put(at(6, "v2", TABLE, false), at(999, "s", ROW, false)));
        int bytes = keyed.stateBytes();
        keyed.put(at(5.5, "older", TABLE, false));
        assertEquals(bytes, keyed.stateBytes(), "no row in time needs it");
        assertEquals(List.of("t v2"), keyed.put(at(1000, "t", ROW, false)));
    }

    @Test
    void aLaterVersionOfTheSameTimeReplacesTheFirst() {
        Keyed keyed = lookup(true, false, 0);
        keyed.put(at(5, "v1", TABLE, false), at(5, "v2", TABLE, false));
        assertEquals(List.of("r v2"), keyed.put(at(5, "r", ROW, false)));
    }

    @Test
    void aDeletionReleasesWaitingRows() {
        Keyed keyed = lookup(false, false, 2_000);
        keyed.put(at(0, "r", ROW, false));
        assertEquals(List.of("r null"), keyed.put(at(0, "d", TABLE, true)));
        assertTrue(keyed.isExpired());
    }

    /** As in SQL, null equals nothing. */
    @Test
    void aKeyOfNullMatchesNothing() {
        Keyed left = lookup(false, false, 2_000, 1_000, null);
        left.put(at(0, "v", TABLE, false));
        assertEquals(List.of("r null"), left.put(at(0, "r", ROW, false)), "there is nothing to wait for");
        assertTrue(left.isExpired());
        assertEquals(List.of(), lookup(false, true, 2_000, 1_000, null).put(at(0, "r", ROW, false)));
    }
}
