package dev.eagre.operators;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.UUID;
import org.junit.jupiter.api.Test;

class ArrivalClockTest {
    private static final long START = 1_000_000;
    private static final long NOW = START + 1_000_000;

    private final ArrivalClock clock = new ArrivalClock(START);

    @Test
    void withoutRecordsTheClockIsTheWallClock() {
        assertEquals(NOW, clock.time(NOW));
        assertEquals(NOW + 5, clock.wall(NOW + 5, 0));
    }

    @Test
    void aRecordWithLagSetsTheClockBack() {
        clock.saw(NOW, NOW - 700);
        assertEquals(NOW - 700, clock.time(NOW));
        assertEquals(NOW + 5, clock.wall(NOW - 695, 0));
    }

    @Test
    void recordsWithoutATimeOrFromTheFutureChangeNothing() {
        clock.saw(NOW, null);
        clock.saw(NOW, NOW + 10_000);
        assertEquals(NOW, clock.time(NOW));
    }

    /** Partitions may have different lags. */
    @Test
    void theLargestLagCounts() {
        clock.saw(NOW, NOW - 700);
        clock.saw(NOW + 1, NOW + 1);
        assertEquals(NOW + 1 - 700, clock.time(NOW + 1));
    }

    @Test
    void aLagExpiresAfterTwoSeconds() {
        clock.saw(NOW, NOW - 700);
        clock.saw(NOW + 1_001, NOW + 1_001);
        assertEquals(NOW + 301, clock.time(NOW + 1_001), "the previous second counts as well");
        clock.saw(NOW + 2_002, NOW + 2_002);
        assertEquals(NOW + 2_002, clock.time(NOW + 2_002));
    }

    /** The lag of records written while the query was down is unknown. */
    @Test
    void afterAStartEveryWaitStartsAgain() {
        assertEquals(START + 60_000, clock.wall(START - 500_000, 60_000));
        assertEquals(NOW, clock.wall(NOW, 60_000));
    }

    @Test
    void aLongWaitDoesNotStartAgainForMoreThanAnHour() {
        assertEquals(START + 3_600_000, clock.wall(START - 500_000, 86_400_000));
    }

    /** At an epoch boundary rows wait, and the timers of the new epoch come before them. */
    @Test
    void afterAPauseOfTheTaskRowsHaveASecondToArrive() {
        clock.runs(NOW, true);
        clock.runs(NOW + 900, false);
        assertEquals(NOW + 1_901, clock.wall(NOW + 1_901, 0));
        clock.runs(NOW + 3_000, false);
        assertEquals(NOW + 4_000, clock.wall(NOW + 1_000, 0));
        clock.runs(NOW + 3_500, false);
        assertEquals(NOW + 4_000, clock.wall(NOW + 1_000, 0), "the second does not start again");
    }

    @Test
    void pausesBetweenMicroBatchesAreNormal() {
        clock.runs(NOW, false);
        clock.runs(NOW + 60_000, false);
        assertEquals(NOW + 60_000, clock.wall(NOW + 60_000, 0));
    }

    @Test
    void anOperatorsPartitionHasOneClockPerRun() {
        UUID run = UUID.randomUUID();
        assertSame(ArrivalClock.of(run, "op", 1), ArrivalClock.of(run, "op", 1));
        assertNotSame(ArrivalClock.of(run, "op", 1), ArrivalClock.of(run, "op", 2));
        assertNotSame(ArrivalClock.of(run, "op", 1), ArrivalClock.of(UUID.randomUUID(), "op", 1));
    }

    @Test
    void clocksOfRunsThatEndedLongAgoAreForgotten() {
        UUID run = UUID.randomUUID();
        ArrivalClock first = ArrivalClock.of(run, "op", 1);
        for (int i = 0; i < 200; i++) ArrivalClock.of(UUID.randomUUID(), "op", 1);
        assertNotSame(first, ArrivalClock.of(run, "op", 1));
    }
}
