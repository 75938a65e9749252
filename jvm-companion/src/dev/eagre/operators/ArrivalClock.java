package dev.eagre.operators;

import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The wall clock, as far as it may be trusted to say that nothing more comes. Where records are read
 * long after they were written, because the query was down or is slower than they come, time goes by
 * when they were written: a task's time is what it is behind less than the wall clock's. And after a
 * start every wait begins again, for nothing is known of what was written meanwhile.
 */
final class ArrivalClock {
    private static final long RECENT_MS = 1_000;
    private static final Map<String, ArrivalClock> CLOCKS = new ConcurrentHashMap<>();

    private final long start;
    private long since;
    private long behind;
    private long before;

    /** @param start when the run began, in milliseconds */
    ArrivalClock(long start) {
        this.start = start;
    }

    /** The clock of an operator's partition in a run; tasks come and go with each epoch or batch. */
    static ArrivalClock of(UUID run, String operator, int partition) {
        return CLOCKS.computeIfAbsent(run + "/" + operator + "/" + partition, name -> new ArrivalClock(System.currentTimeMillis()));
    }

    /**
     * Notes when a record was written, in milliseconds; null where it is not known. Of the records of
     * the last seconds the one that is most behind counts: partitions need not be equally far.
     */
    synchronized void saw(long now, Long written) {
        if (written == null) return;
        long mine = Math.max(0, now - written);
        if (now - since > RECENT_MS) {
            before = behind;
            behind = mine;
            since = now;
        } else {
            behind = Math.max(behind, mine);
        }
    }

    private synchronized long behind() {
        return Math.max(before, behind);
    }

    /** The task's time. */
    long time(long now) {
        return now - behind();
    }

    /** When it is a given time by the task's clock, and so long after the start, by the wall clock. */
    long wall(long time, long waits) {
        return Math.max(time + behind(), start + waits);
    }
}
