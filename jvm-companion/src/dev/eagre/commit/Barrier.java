package dev.eagre.commit;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Finds the moment at which no row is in flight. Rows are counted when they are sent from task to task within this
 * JVM, or to Python and back, and when they are received. The sources pause first. When as many rows have been
 * received as sent, and every task waits for the next row, no row is in flight. The state then reflects a known
 * position of each source.
 */
public final class Barrier {
    private static final long POLL_NANOS = 200_000;

    private static final Set<RowCount> SENT = ConcurrentHashMap.newKeySet();
    private static final Set<ReceivedCount> RECEIVED = ConcurrentHashMap.newKeySet();
    private static final Set<Pausable> PAUSABLES = ConcurrentHashMap.newKeySet();
    private static final Set<Runnable> FLUSHES = ConcurrentHashMap.newKeySet();

    private Barrier() {}

    /** Rows that a single thread has counted. */
    public static class RowCount {
        volatile long rows;

        /** Counts a row. */
        public final void increment() {
            rows = rows + 1;
        }
    }

    /** The rows that a task has received; the task is idle, or processes a row. */
    public static final class ReceivedCount extends RowCount {
        private volatile boolean idle;

        /** Sets whether the task waits for the next row; it has then processed all rows before. */
        public void setIdle(boolean now) {
            idle = now;
        }
    }

    /** A task that is active without rows, such as one with timers; it takes a pause point after its rows. */
    public interface Pausable {
        void pause(PausePoint point) throws InterruptedException;
    }

    /** The point at which a task pauses while its state is written. */
    public static final class PausePoint {
        private final CountDownLatch reached = new CountDownLatch(1);
        private final CountDownLatch released = new CountDownLatch(1);

        /** Called by the task: signals that it has arrived, and blocks until the state is written. */
        public void await() throws InterruptedException {
            reached.countDown();
            released.await();
        }
    }

    /** Counts the rows that a task sends to other tasks or to another process. */
    public static RowCount sentBy(TaskContext task) {
        return register(task, SENT, new RowCount());
    }

    /** Counts the rows that a task receives; a row that is dropped on the way counts as received. */
    public static ReceivedCount receivedBy(TaskContext task) {
        return register(task, RECEIVED, new ReceivedCount());
    }

    /** Registers a task that must pause before its state is written. */
    public static void onPause(TaskContext task, Pausable pausable) {
        register(task, PAUSABLES, pausable);
    }

    /** Registers a function that writes a task's buffered changes into its state. */
    public static void onFlush(TaskContext task, Runnable flush) {
        register(task, FLUSHES, flush);
    }

    private static <T> T register(TaskContext task, Set<T> registry, T entry) {
        registry.add(entry);
        task.addTaskCompletionListener((TaskCompletionListener) context -> registry.remove(entry));
        return entry;
    }

    /** An action that runs while no row is in flight. */
    public interface Action<T> {
        T run() throws Exception;
    }

    /**
     * Waits for the rows in flight, pauses the tasks, runs the action, and resumes the tasks. The sources must be
     * paused before the call.
     *
     * @return the result of the action; null if rows are still in flight at the deadline
     */
    public static <T> T whileIdle(long deadline, Action<T> action) throws Exception {
        if (poll(deadline, () -> idle() ? Boolean.TRUE : null) == null) return null;
        List<PausePoint> points = new ArrayList<>();
        try {
            for (Pausable pausable : PAUSABLES) {
                PausePoint point = new PausePoint();
                points.add(point);
                pausable.pause(point);
            }
            for (PausePoint point : points) {
                long remaining = deadline - System.nanoTime();
                if (!point.reached.await(Math.max(remaining, 0), TimeUnit.NANOSECONDS)) return null;
            }
            // A timer that fired meanwhile may have sent further rows.
            if (!idle()) return null;
            FLUSHES.forEach(Runnable::run);
            return action.run();
        } finally {
            points.forEach(point -> point.released.countDown());
        }
    }

    /** Polls until the source returns a value; null if it returns none before the deadline. */
    public static <T> T poll(long deadline, Supplier<T> source) {
        T value = source.get();
        while (value == null && System.nanoTime() < deadline) {
            LockSupport.parkNanos(POLL_NANOS);
            value = source.get();
        }
        return value;
    }

    /** Compares the counts first: a task that received its last row and is idle again has processed it. */
    private static boolean idle() {
        long sent = SENT.stream().mapToLong(entry -> entry.rows).sum();
        long received = RECEIVED.stream().mapToLong(entry -> entry.rows).sum();
        return sent == received && RECEIVED.stream().allMatch(entry -> entry.idle)
                && sent == SENT.stream().mapToLong(entry -> entry.rows).sum();
    }
}
