package dev.eagre.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.spark.util.ManualClock;
import org.junit.jupiter.api.Test;

/** Time goes on while a test runs: results have a tolerance of some seconds, far below what the tests move. */
class SteadyClockTest {
    private static final long THEN = 1_000_000_000;
    private static final long TOLERANCE_MS = 60_000;

    private final ManualClock machine = new ManualClock(THEN);
    private final SteadyClock clock = new SteadyClock(machine);

    @Test
    void itBeginsWithTheMachinesTime() {
        assertEquals(THEN, clock.getTimeMillis(), TOLERANCE_MS);
    }

    @Test
    void itDoesNotGoBackWithTheMachinesClock() {
        long before = clock.getTimeMillis();
        machine.setTime(THEN - 3_600_000);
        long after = clock.getTimeMillis();
        assertTrue(after >= before, before + ", then " + after);
        assertEquals(THEN, after, TOLERANCE_MS);
    }

    @Test
    void itGoesOnWhereTheMachinesClockStands() throws Exception {
        long before = clock.getTimeMillis();
        Thread.sleep(20);
        assertTrue(clock.getTimeMillis() >= before + 20);
    }

    @Test
    void itFollowsTheMachinesClockAfterASleep() {
        machine.setTime(THEN + 3_600_000);
        assertEquals(THEN + 3_600_000, clock.getTimeMillis());
        machine.setTime(THEN);
        assertEquals(THEN + 3_600_000, clock.getTimeMillis(), TOLERANCE_MS);
    }
}
