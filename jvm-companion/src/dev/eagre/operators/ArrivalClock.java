package dev.eagre.operators;

import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A clock that decides when no more rows are expected. If records are read long after they were written,
 * because the query was down or has a lag, time follows the time of writing: the task's time is the wall
 * clock minus the lag. After a start every wait begins again, because it is unknown what was written
 * meanwhile.
 */
final class ArrivalClock {
    private static final long RECENT_MS = 1_000;
    private static final Map<String, ArrivalClock> CLOCKS = new ConcurrentHashMap<>();

    private final long start;
    private long since;
    private long lag;
    private long before;

    /** @param start when the run started, in milliseconds */
    ArrivalClock(long start) {
        this.start = start;
    }

    /** The clock of an operator's partition in a run; it outlives the tasks of an epoch or batch. */
    static ArrivalClock of(UUID run, String operator, int partition) {
        return CLOCKS.computeIfAbsent(run + "/" + operator + "/" + partition, name -> new ArrivalClock(System.currentTimeMillis()));
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

    private synchronized long lag() {
        return Math.max(before, lag);
    }

    /** The task's time. */
    long time(long now) {
        return now - lag();
    }

    /** The wall-clock time at which the task's clock reaches a time, and a wait after the start is over. */
    long wall(long time, long waits) {
        return Math.max(time + lag(), start + waits);
    }
}
