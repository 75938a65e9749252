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
        return new Keyed(Lookup::new, "'side':" + Keyed.FIRST_ARGUMENT + ",'versioned':" + versioned + ",'inner':"
                + inner + ",'history':" + 10 * SECOND + ",'waits_ms':" + waitsMs + ",'keeps_ms':3600000");
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
    void versionsBeyondTheHistoryExpireExceptTheLatest() {
        Keyed keyed = lookup(true, false, 0);
        keyed.put(at(0, "v1", TABLE, false), at(1, "v2", TABLE, false));
        int two = keyed.stateBytes();
        keyed.put(at(20, "r", ROW, false));
        assertTrue(keyed.stateBytes() < two);
        assertEquals(List.of("s v2"), keyed.put(at(10, "s", ROW, false)));
        assertEquals(List.of("late null"), keyed.put(at(9, "late", ROW, false)));
    }
}
