package dev.eagre.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.spark.util.ManualClock;
import org.junit.jupiter.api.Test;

/** Time passes while a test runs: the tolerance of some seconds is far below the steps of the tests. */
class SteadyClockTest {
    private static final long THEN = 1_000_000_000;
    private static final long TOLERANCE_MS = 60_000;

    private final ManualClock machine = new ManualClock(THEN);
    private final SteadyClock clock = new SteadyClock(machine);

    @Test
    void startsWithTheMachinesTime() {
        assertEquals(THEN, clock.getTimeMillis(), TOLERANCE_MS);
    }

    @Test
    void doesNotGoBackWithTheMachinesClock() {
        long before = clock.getTimeMillis();
        machine.setTime(THEN - 3_600_000);
        long after = clock.getTimeMillis();
        assertTrue(after >= before, before + ", then " + after);
        assertEquals(THEN, after, TOLERANCE_MS);
    }

    @Test
    void continuesWhenTheMachinesClockStops() throws Exception {
        long before = clock.getTimeMillis();
        Thread.sleep(20);
        assertTrue(clock.getTimeMillis() >= before + 20);
    }

    @Test
    void followsTheMachinesClockAfterASleep() {
        machine.setTime(THEN + 3_600_000);
        assertEquals(THEN + 3_600_000, clock.getTimeMillis());
        machine.setTime(THEN);
        assertEquals(THEN + 3_600_000, clock.getTimeMillis(), TOLERANCE_MS);
    }
}
