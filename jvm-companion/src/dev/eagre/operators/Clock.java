package dev.eagre.operators;

import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The wall clock, as far as it may be trusted to say that nothing more comes. While a query was down,
 * and while it works off what waited, rows come later than they otherwise would: the time since the
 * start counts, and what a task is behind is added.
 */
final class Clock {
    private static final long RECENT_MS = 1_000;
    private static final Map<UUID, Long> STARTS = new ConcurrentHashMap<>();

    private final long start;
    private long behind;
    private long measured;

    Clock(UUID run) {
        start = STARTS.computeIfAbsent(run, id -> System.currentTimeMillis());
    }

    /** Notes a row and when its record was written, in milliseconds; null where it is not known. */
    void saw(Long written) {
        if (written == null) return;
        measured = System.currentTimeMillis();
        behind = Math.max(0, measured - written);
    }

    /** The time until which to wait at least, for something that waits so long after the last row. */
    long earliest(long due, long waits) {
        long now = System.currentTimeMillis();
        boolean catchingUp = now - measured < RECENT_MS && behind > RECENT_MS;
        return Math.max(due, start + waits) + (catchingUp ? behind : 0);
    }
}
