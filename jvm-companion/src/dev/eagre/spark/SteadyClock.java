package dev.eagre.spark;

import org.apache.spark.util.Clock;
import org.apache.spark.util.SystemClock;

/**
 * A clock that never goes back. If the machine's clock goes back, an epoch would last that much longer
 * without a commit. This clock follows the machine's clock when that jumps forward, for instance after
 * a sleep.
 */
public final class SteadyClock extends SystemClock {
    private static final long STEP_MS = 1000;

    private final Clock machine;
    private long baseNanos = System.nanoTime();
    private long baseMs;

    public SteadyClock(Clock machine) {
        this.machine = machine;
        baseMs = machine.getTimeMillis();
    }

    @Override
    public synchronized long getTimeMillis() {
        long steady = baseMs + (System.nanoTime() - baseNanos) / 1_000_000;
        long now = machine.getTimeMillis();
        if (now < steady + STEP_MS) return steady;
        baseNanos = System.nanoTime();
        baseMs = now;
        return now;
    }
}
