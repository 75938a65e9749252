package dev.eagre.commit;

import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;

/** When a wait is given up: at a time, or as soon as it is cancelled. */
public final class Deadline {
    private static final long POLL_NANOS = 200_000;

    private final long nanos;
    private volatile boolean cancelled;

    private Deadline(long nanos) {
        this.nanos = nanos;
    }

    /** The deadline after some milliseconds from now. */
    public static Deadline in(long ms) {
        return new Deadline(System.nanoTime() + ms * 1_000_000);
    }

    /** Ends the wait. */
    void cancel() {
        cancelled = true;
    }

    /** Whether the wait is over. */
    public boolean hasPassed() {
        return cancelled || System.nanoTime() - nanos >= 0;
    }

    /** Polls until the source returns a value; null if it returns none before the deadline. */
    public <T> T poll(Supplier<T> source) {
        T value = source.get();
        while (value == null && !hasPassed()) {
            LockSupport.parkNanos(POLL_NANOS);
            value = source.get();
        }
        return value;
    }
}
