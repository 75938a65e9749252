package dev.eagre.operators;

import dev.eagre.spark.PerRun;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A clock that decides when no more rows are expected. If records are read long after they were written,
 * because the query was down or has a lag, time follows the time of writing: the task's time is the wall
 * clock minus the lag. After a start every wait begins again, because it is unknown what was written
 * meanwhile; after an hour the lag is known, so that long waits end although the query restarts every day.
 * After a pause of the task, as at an epoch boundary, rows have a second to arrive.
 */
final class ArrivalClock {
    private static final long RECENT_MS = 1_000;
    private static final long KNOWN_MS = 3_600_000;
    private static final PerRun<Map<String, ArrivalClock>> CLOCKS = new PerRun<>(ConcurrentHashMap::new);

    private final long start;
    private long since;
    private long lag;
    private long before;
    private boolean ticks;
    private long active;
    private long resumed = Long.MIN_VALUE / 2;

    /** @param start when the run started, in milliseconds */
    ArrivalClock(long start) {
        this.start = start;
    }

    /** The clock of an operator's partition in a run; it outlives the tasks of an epoch or batch. */
    static ArrivalClock of(UUID run, String operator, int partition) {
        return of(run, operator, partition, System.currentTimeMillis());
    }

    /** The clock of a run that started at a time in milliseconds. */
    static ArrivalClock of(UUID run, String operator, int partition, long start) {
        return CLOCKS.of(run.toString()).computeIfAbsent(operator + "/" + partition, name -> new ArrivalClock(start));
    }

    /**
     * Records when a record was written, in milliseconds; null if unknown. The largest lag of the last seconds
     * counts, because partitions may have different lags.
     */
    synchronized void saw(long now, Long written) {
        if (written == null) return;
        long current = Math.max(0, now - written);
        if (now - since > RECENT_MS) {
            before = lag;
            lag = current;
            since = now;
        } else {
            lag = Math.max(lag, current);
        }
    }

    /**
     * Records that the task is running: it processes a row, a tick or a timer. Without ticks, as in micro-batches,
     * a pause is normal, and rows come before timers.
     */
    synchronized void runs(long now, boolean tick) {
        ticks |= tick;
        if (ticks && now - active > RECENT_MS) resumed = now;
        active = Math.max(active, now);
    }

    private synchronized long lag() {
        return Math.max(before, lag);
    }

    /** The task's time. */
    long time(long now) {
        return now - lag();
    }

    /** The wall-clock time at which the task's clock reaches a time, and the waits after a start and a pause are over. */
    synchronized long wall(long time, long waits) {
        return Math.max(Math.max(time + lag(), start + Math.min(waits, KNOWN_MS)), resumed + RECENT_MS);
    }
}
