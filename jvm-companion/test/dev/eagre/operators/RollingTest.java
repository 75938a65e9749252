package dev.eagre.operators;

import static dev.eagre.operators.Keyed.SECOND;
import static dev.eagre.operators.Keyed.at;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Sums over the last 10 s in slices of 1 s, and counts over the last 60 s in slices of 10 s; 5 s grace. */
class RollingTest {
    private static final int VALUE = Keyed.FIRST_ARGUMENT;

    private final Keyed rolling = new Keyed(Rolling::new, "'grace':" + 5 * SECOND + ",'keeps_ms':65000,'windows':["
            + "{'slice':" + SECOND + ",'slices':10,'aggregates':[{'kind':'sum','column':" + VALUE + ",'whole':true}]},"
            + "{'slice':" + 10 * SECOND + ",'slices':6,'aggregates':[{'kind':'count','column':" + VALUE
            + ",'whole':true}]}]");

    @Test
    void eachRowCarriesTheAggregatesOfItsWindows() {
        assertEquals(List.of("a 1 1", "b 3 2", "c 7 3"),
                rolling.put(at(0, "a", 1L), at(5, "b", 2L), at(9.9, "c", 4L)));
    }

    @Test
    void rowsOlderThanTheWindowDoNotCount() {
        rolling.put(at(0, "a", 1L), at(5, "b", 2L));
        assertEquals(List.of("c 6 3"), rolling.put(at(10, "c", 4L)), "the slice from 0 to 1 has left the window");
        assertEquals(List.of("d 12 4"), rolling.put(at(15, "d", 8L)), "the slice from 5 to 6 has left the window");
    }

    @Test
    void aWindowBecomesEmpty() {
        rolling.put(at(0, "a", 1L));
        assertEquals(List.of("b 2 1"), rolling.put(at(1000, "b", 2L)));
    }

    @Test
    void anOlderRowSeesTheWindowOfItsTime() {
        rolling.put(at(0, "a", 1L), at(4, "b", 2L));
        assertEquals(List.of("c 5 3"), rolling.put(at(2, "c", 4L)), "a slice of 1 s is without the row at 4");
        assertEquals(List.of("d 15 4"), rolling.put(at(5, "d", 8L)), "newer rows see the older one");
    }

    @Test
    void aLateRowHasNullAggregates() {
        rolling.put(at(10, "a", 1L));
        assertEquals(List.of("b 2 1"), rolling.put(at(5, "b", 2L)), "as late as the grace");
        assertEquals(List.of("c null null"), rolling.put(at(4.9, "c", 4L)));
        assertEquals(List.of("d null null"), rolling.put(Keyed.row(null, null, null, null, "d", 8L)));
    }

    @Test
    void timesBeforeTheUnixEpochAreSupported() {
        assertEquals(List.of("a 1 1", "b 3 2", "c 6 3"),
                rolling.put(at(-10, "a", 1L), at(-0.5, "b", 2L), at(0.5, "c", 4L)));
    }

    @Test
    void nullsAddNothing() {
        assertEquals(List.of("a null 0", "b 2 1"), rolling.put(at(0, "a", (Object) null), at(0, "b", 2L)));
    }

    @Test
    void stateSurvivesARestart() {
        rolling.put(at(0, "a", 1L), at(5, "b", 2L));
        rolling.restart();
        assertEquals(List.of("c 7 3"), rolling.put(at(9, "c", 4L)));
        rolling.restart();
        assertEquals(List.of("d 14 4"), rolling.put(at(10, "d", 8L)));
    }

    @Test
    void stateDoesNotGrowWithTheNumberOfRows() {
        for (int i = 0; i < 100; i++) rolling.put(at(i, "a", 1L));
        int bytes = rolling.stateBytes();
        for (int i = 0; i < 1000; i++) rolling.put(at(100 + i / 10.0, "a", 1L));
        assertTrue(rolling.stateBytes() <= bytes + 64, rolling.stateBytes() + " bytes, before " + bytes);
    }

    @Test
    void theStateOfAnIdleKeyExpires() {
        rolling.put(at(0, "a", 1L));
        rolling.pass(66);
        assertTrue(rolling.isExpired());
        assertEquals(List.of("b 2 1"), rolling.put(at(1, "b", 2L)), "and starts from scratch");
    }

    private record Event(double second, long value) {}

    /** Compares with a sum over all previous rows in the slices of the row's window. */
    @Test
    void randomRowsEqualASumOverAllRows() {
        long seed = 5;
        Random random = new Random(seed);
        List<Event> all = new ArrayList<>();
        double newest = -50;
        for (int i = 0; i < 400; i++) {
            double second = Math.max(newest - 5, newest + random.nextGaussian() * 3);
            newest = Math.max(newest, second);
            all.add(new Event(second, random.nextInt(100)));
            if (random.nextInt(20) == 0) rolling.restart();
            long sum = all.stream().filter(e -> within(e.second, second, 1, 10)).mapToLong(Event::value).sum();
            long count = all.stream().filter(e -> within(e.second, second, 10, 6)).count();
            assertEquals(List.of("r " + sum + " " + count),
                    rolling.put(at(second, "r", all.get(i).value)), "seed " + seed + ", row " + i);
        }
    }

    private static boolean within(double then, double second, long slice, int slices) {
        long its = Math.floorDiv(Math.round(then * SECOND), slice * SECOND);
        long mine = Math.floorDiv(Math.round(second * SECOND), slice * SECOND);
        return its > mine - slices && its <= mine;
    }
}
