package dev.eagre.operators;

import static dev.eagre.operators.Keyed.SECOND;
import static dev.eagre.operators.Keyed.at;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Test;

/** Windows of 10 s that count their rows; results are the start in microseconds, the count, the last row. */
class WindowsTest {
    private static Keyed windows(long slide, long grace, boolean updates) {
        return windows(slide, grace, updates, 0);
    }

    private static Keyed windows(long slide, long grace, boolean updates, long retentionMs) {
        return windows(slide, grace, updates, "'retention_ms':" + retentionMs + ",");
    }

    private static Keyed windows(long slide, long grace, boolean updates, String more) {
        return new Keyed(Windows::new, "'window':" + 10 * SECOND + ",'slide':" + slide * SECOND + ",'grace':"
                + grace * SECOND + ",'updates':" + updates
                + "," + more + "'aggregates':[{'kind':'count','column':0,'whole':true}]");
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
        assertEquals(List.of(), tumbling.pass(6.9), "6 s were left of the window, and rows may be in flight for 1 s");
        assertEquals(List.of("0 1 a"), tumbling.pass(0.2));
        assertEquals(List.of(), tumbling.put(at(9, "late")), "a window closed by the wall clock stays closed");
        assertEquals(List.of("10000000 1 b"), tumbling.put(at(10, "b"), at(20, "c")));
    }

    /** A row that is in order, but on its way for longer than the one before. */
    @Test
    void withoutAGraceRowsInOrderAreNotLate() {
        tumbling.put(at(4, "a"));
        assertEquals(List.of(), tumbling.pass(6.5));
        tumbling.put(at(9.9, "b"));
        assertEquals(List.of("0 2 b"), tumbling.put(at(10, "c")));
    }

    /** As in Quix Streams, where a window that has expired never opens again. */
    @Test
    void aClosedWindowStaysClosedForTheRetention() {
        Keyed windows = windows(10, 0, false, 3_600_000);
        windows.put(at(4, "a"));
        assertEquals(List.of("0 1 a"), windows.pass(100));
        windows.restart();
        windows.put(at(9, "late"));
        assertEquals(List.of(), windows.pass(100), "the window is final only once");
        assertEquals(List.of("10000000 1 b"), windows.put(at(10, "b"), at(20, "c")), "the next window is open");
        windows.pass(7_200);
        assertTrue(windows.isExpired());
    }

    @Test
    void anIdleWindowDoesNotStartAgainWithUpdates() {
        Keyed windows = windows(10, 0, true, 3_600_000);
        assertEquals(List.of("0 1 a"), windows.put(at(4, "a")));
        assertEquals(List.of(), windows.pass(100));
        assertEquals(List.of(), windows.put(at(5, "late")), "a count of one would replace the correct one");
        windows.pass(7_200);
        assertTrue(windows.isExpired());
    }

    /** A row for an older window arrives later than the one for a newer window, both within the grace. */
    @Test
    void theWallClockClosesWindowsInTheirOrder() {
        Keyed windows = windows(10, 20, false);
        windows.put(at(15, "b"));
        windows.pass(3);
        windows.put(at(5, "a"));
        assertEquals(List.of(), windows.pass(23), "the older window is open for two more seconds");
        windows.put(at(9, "c"));
        assertEquals(List.of("0 2 c", "10000000 1 b"), windows.pass(60), "a row of an open window is not late");
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

    /** Records without a time have -1, a millisecond before the Unix epoch. */
    @Test
    void recordsWithoutATimeArriveWhenTheyAreRead() {
        Keyed windows = windows(10, 0, false, "'ahead_ms':86400000,");
        long start = windows.now() / 10_000 * 10;
        windows.put(Keyed.row((start + 4) * SECOND, -1L, 0L, 0L, "a"));
        assertEquals(List.of(start * SECOND + " 1 a"), windows.pass(7.1));
    }

    @Test
    void windowsOfAMillisecondAreSupported() {
        Keyed windows = new Keyed(Windows::new, "'window':1000,'slide':1000,'grace':0,'updates':false,"
                + "'aggregates':[{'kind':'count','column':0,'whole':true}]");
        windows.put(at(-0.001, "a"), at(-0.0005, "b"));
        assertEquals(List.of("-1000 2 b"), windows.put(at(0, "c")));
        assertEquals(List.of("0 1 c"), windows.pass(1.1));
    }

    /** Windows of 10 s that start every 4 s. */
    @Test
    void theSlideNeedNotDivideTheWindow() {
        Keyed windows = windows(4, 0, true);
        assertEquals(List.of("8000000 1 a", "4000000 1 a"), windows.put(at(11.999999, "a")));
        assertEquals(List.of("12000000 1 b", "8000000 2 b", "4000000 2 b"), windows.put(at(13.999999, "b")));
        assertEquals(List.of("12000000 2 c", "8000000 3 c"), windows.put(at(14, "c")));
        assertEquals(List.of("-4000000 1 d", "-8000000 1 d", "-12000000 1 d"), windows(4, 0, true).put(at(-3, "d")));
    }

    /** The wait for the end of the state begins again, and the timer with it. */
    @Test
    void afterARestartATimerFiresOnce() {
        Keyed windows = windows(10, 0, false, 3_600_000);
        windows.put(at(4, "a"));
        windows.pass(7_000);
        assertTrue(windows.isExpired());
        windows.put(at(4, "a"));
        windows.pass(3_500);
        windows.restartNow();
        int before = windows.fired();
        windows.pass(600);
        assertTrue(windows.fired() - before <= 2, windows.fired() - before + " times");
        assertFalse(windows.isExpired());
        windows.pass(3_600);
        assertTrue(windows.isExpired());
    }

    /** A query that is restarted every hour and a half. */
    @Test
    void frequentRestartsKeepNoStateAlive() {
        Keyed windows = windows(10, 0, false, 86_400_000);
        windows.put(at(4, "a"));
        for (int i = 0; i < 17; i++) {
            windows.pass(5_400);
            windows.restartNow();
        }
        assertTrue(windows.isExpired());
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

    /** A device with a wrong clock sends one row with a timestamp of next year. */
    @Test
    void aRowFarAheadOfItsArrivalIsRejected() {
        Keyed windows = windows(10, 0, false, "'ahead_ms':86400000,");
        long start = windows.now() / 10_000 * 10;
        windows.put(at(start + 1, "a"), at(start + 365 * 86_400, "ahead"), at(start + 2, "b"));
        assertEquals(List.of(start * SECOND + " 2 b"), windows.put(at(start + 10, "c")));
        long yesterday = windows.now() - 86_400_000;
        Row backlog = Keyed.row((yesterday + 86_500_000) * 1000, yesterday, 0L, 0L, "ahead of its record");
        assertEquals(List.of(), windows.put(backlog));
        assertEquals(List.of(), windows.put(at(start + 86_400, "d")).stream().filter(r -> r.contains("ahead")).toList());
    }

    /** A key whose clock is ahead, in a checkpoint written before such rows were rejected. */
    @Test
    void lateRowsDoNotKeepTheStateAlive() {
        List<String> out = new ArrayList<>(tumbling.put(at(1_000_000, "ahead")));
        for (int i = 0; i < 20; i++) {
            out.addAll(tumbling.put(at(5, "row " + i)));
            out.addAll(tumbling.pass(5));
        }
        out.addAll(tumbling.put(at(10, "next")));
        assertTrue(out.stream().anyMatch(result -> result.startsWith("0 ")), "the key recovers: " + out);
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
