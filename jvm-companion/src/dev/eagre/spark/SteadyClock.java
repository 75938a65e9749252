package dev.eagre.spark;

import org.apache.spark.util.Clock;
import org.apache.spark.util.SystemClock;

/**
 * A clock that never goes back: where the machine's clock does, an epoch would last that much longer,
 * without a commit. It follows the machine's clock where that goes on, after a sleep for instance.
 */
public final class SteadyClock extends SystemClock {
    private static final long STEP_MS = 1000;

    private final Clock machine;
    private long begin = System.nanoTime();
    private long then;

    public SteadyClock(Clock machine) {
        this.machine = machine;
        then = machine.getTimeMillis();
    }

    @Override
    public synchronized long getTimeMillis() {
        long steady = then + (System.nanoTime() - begin) / 1_000_000;
        long told = machine.getTimeMillis();
        if (told < steady + STEP_MS) return steady;
        begin = System.nanoTime();
        then = told;
        return told;
    }
}
