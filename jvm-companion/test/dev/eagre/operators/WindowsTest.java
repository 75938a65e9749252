package dev.eagre.operators;

import static dev.eagre.operators.Keyed.SECOND;
import static dev.eagre.operators.Keyed.at;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** Windows of 10 s that count their rows; results are the start in microseconds, the count, the last row. */
class WindowsTest {
    private static Keyed windows(long slide, long grace, boolean updates) {
        return new Keyed(Windows::new, "'window':" + 10 * SECOND + ",'slide':" + slide * SECOND + ",'grace':"
                + grace * SECOND + ",'updates':" + updates
                + ",'aggregates':[{'kind':'count','column':0,'whole':true}]");
    }

    private final Keyed tumbling = windows(10, 0, false);

    @Test
    void aWindowIncludesItsStartAndExcludesItsEnd() {
        assertEquals(List.of(), tumbling.put(at(0, "a"), at(9.999999, "b")));
        assertEquals(List.of("0 2 b"), tumbling.put(at(10, "c")), "the row at the end is in the next window");
        assertEquals(List.of("10000000 1 c"), tumbling.put(at(20, "d")));
    }

    @Test
    void windowsBeforeTheUnixEpochAreAligned() {
        tumbling.put(at(-10, "a"), at(-0.000001, "b"));
        assertEquals(List.of("-10000000 2 b"), tumbling.put(at(0, "c")));
        assertEquals(List.of("0 1 c"), tumbling.put(at(10, "d")));
    }

    @Test
    void aRowInAClosedWindowIsLate() {
        tumbling.put(at(5, "a"), at(10, "b"));
        assertEquals(List.of(), tumbling.put(at(9.9, "late")));
        assertEquals(List.of("10000000 1 b"), tumbling.put(at(20, "c")));
    }

    @Test
    void withinTheGraceRowsMayArriveInAnyOrder() {
        Keyed windows = windows(10, 5, false);
        windows.put(at(9, "a"), at(14.9, "b"));
        assertEquals(List.of(), windows.put(at(1, "c")));
        assertEquals(List.of("0 2 c"), windows.put(at(15, "d")), "the window closes 5 s after its end");
        assertEquals(List.of(), windows.put(at(9, "late")));
    }

    @Test
    void aJumpInTimeClosesAllWindowsInTheirOrder() {
        Keyed windows = windows(10, 20, false);
        windows.put(at(25, "c"), at(5, "a"), at(15, "b"));
        assertEquals(List.of("0 1 a", "10000000 1 b", "20000000 1 c"), windows.put(at(1000, "d")));
    }

    @Test
    void slidingWindowsOverlap() {
        Keyed windows = windows(5, 0, true);
        assertEquals(List.of("5000000 1 a", "0 1 a"), windows.put(at(7, "a")));
        assertEquals(List.of("10000000 1 b", "5000000 2 b"), windows.put(at(10, "b")), "the window from 0 is closed");
        assertEquals(List.of("5000000 3 c"), windows.put(at(9, "c")), "a row may be late for one of its windows");
    }

    @Test
    void slidingWindowsOverlapBeforeTheUnixEpoch() {
        Keyed windows = windows(5, 0, true);
        assertEquals(List.of("-5000000 1 a", "-10000000 1 a"), windows.put(at(-1, "a")));
    }

    @Test
    void updatesEmitTheCountOfEachRowAndNoFinalResult() {
        Keyed windows = windows(10, 0, true);
        assertEquals(List.of("0 1 a", "0 2 b"), windows.put(at(1, "a"), at(2, "b")));
        assertEquals(List.of("10000000 1 c"), windows.put(at(11, "c")));
        assertEquals(List.of(), windows.pass(3600));
    }

    @Test
    void theWallClockClosesAnIdleWindow() {
        tumbling.put(at(4, "a"));
        assertEquals(List.of(), tumbling.pass(5.9), "6 s were left of the window");
        assertEquals(List.of("0 1 a"), tumbling.pass(0.2));
        assertEquals(List.of(), tumbling.put(at(9, "late")), "a window closed by the wall clock stays closed");
        assertEquals(List.of("10000000 1 b"), tumbling.put(at(10, "b"), at(20, "c")));
    }

    @Test
    void theWallClockWaitsForTheGrace() {
        Keyed windows = windows(10, 5, false);
        windows.put(at(4, "a"));
        assertEquals(List.of(), windows.pass(10.9));
        assertEquals(List.of("0 1 a"), windows.pass(0.2));
    }

    /** Rows are read an hour after they were written, and more slowly: 5 s for 1 s of records. */
    @Test
    void windowsStayOpenLongerWhileTheLagGrows() {
        Keyed windows = windows(10, 20, false);
        long written = windows.now() - 3_600_000;
        windows.put(Keyed.row(4 * SECOND, written, 0L, 0L, "a"));
        assertEquals(List.of(), windows.pass(5));
        windows.put(Keyed.row(12 * SECOND, written + 1000, 0L, 1L, "b"));
        assertEquals(List.of(), windows.pass(24.9), "6 s of the window, 20 s of grace, 4 s more behind");
        assertEquals(List.of("0 1 a"), windows.pass(0.2));
    }

    @Test
    void stateSurvivesARestart() {
        Keyed windows = windows(10, 5, false);
        windows.put(at(4, "a"), at(12, "b"));
        windows.restart();
        windows.put(at(5, "c"));
        windows.restart();
        assertEquals(List.of("0 2 c"), windows.put(at(15, "d")));
        assertEquals(List.of(), windows.put(at(9, "late")));
    }

    @Test
    void aRowWithoutATimeIsCountedAndIgnored() {
        assertEquals(List.of(), tumbling.put(Keyed.row(null, null, null, null, "no time")));
        tumbling.put(at(1, "a"));
        assertEquals(List.of("0 1 a"), tumbling.put(at(10, "b")));
    }

    @Test
    void aTickChangesNothing() {
        assertEquals(List.of(), tumbling.put(at(1, null)));
        assertTrue(tumbling.isExpired());
    }

    @Test
    void theStateOfAnIdleKeyExpires() {
        tumbling.put(at(1, "a"));
        tumbling.pass(10);
        assertFalse(tumbling.isExpired(), "late rows are still recognised");
        tumbling.pass(60);
        assertTrue(tumbling.isExpired());
        assertEquals(0, tumbling.timers());
    }

    @Test
    void aBatchEqualsRowByRowProcessing() {
        Keyed windows = windows(10, 5, false);
        windows.batch(
                Keyed.row(11 * SECOND, 3L, 1L, 1L, "third"),
                Keyed.row(1 * SECOND, 1L, 1L, 0L, "first"),
                Keyed.row(2 * SECOND, 2L, 2L, 0L, "second"));
        assertEquals(List.of("0 2 second"), windows.put(at(16, "d")));
    }
}
