package dev.eagre.commit;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Finds the moment at which no row of a query is in flight. Rows are counted when they are sent from task to task
 * within this JVM, or to Python and back, and when they are received. The sources pause first. When as many rows have
 * been received as sent, and every task waits for the next row, no row is in flight. The state then reflects a known
 * position of each source.
 *
 * <p>There is one barrier for each run of a query; its tasks find it by the run that started them.
 */
public final class Barrier {
    private static final long POLL_NANOS = 200_000;

    /** Spark makes the id of a streaming query's run the job group of its tasks. */
    private static final String RUN = "spark.jobGroup.id";

    private static final String EPOCH = "streaming.sql.batchId";

    private static final Map<String, Barrier> RUNS = new ConcurrentHashMap<>();

    private final Set<InFlightOffsets> sources = ConcurrentHashMap.newKeySet();
    private final Set<RowCount> sent = ConcurrentHashMap.newKeySet();
    private final Set<ReceivedCount> received = ConcurrentHashMap.newKeySet();
    private final Set<Pausable> pausables = ConcurrentHashMap.newKeySet();
    private final Set<Runnable> flushes = ConcurrentHashMap.newKeySet();
    private final AtomicLong barriers = new AtomicLong();

    /** The last epoch in which a source has ended: its position is no longer known, so that epoch has no more commits. */
    private final AtomicLong lastEnded = new AtomicLong(-1);

    private volatile boolean paused;
    private int users;

    private Barrier() {}

    /** The barrier of a run; the caller releases it with {@link #release}. */
    public static Barrier of(UUID run) {
        return enter(run.toString());
    }

    /** Forgets the barrier of a run when its last task has ended, and resumes its sources. */
    public void release(UUID run) {
        pause(false);
        leave(run.toString());
    }

    /**
     * Waits until all tasks of a run have ended and its barrier is released. Spark kills the tasks of a stopped query
     * without waiting for them, and until they have ended they may read and write.
     *
     * @return whether they ended in time
     */
    public static boolean awaitEnd(UUID run, long waitMs) {
        return poll(System.nanoTime() + waitMs * 1_000_000,
                () -> RUNS.containsKey(run.toString()) ? null : Boolean.TRUE) != null;
    }

    private static Barrier enter(String run) {
        return RUNS.compute(run, (id, known) -> {
            Barrier barrier = known == null ? new Barrier() : known;
            barrier.users++;
            return barrier;
        });
    }

    private static void leave(String run) {
        RUNS.computeIfPresent(run, (id, barrier) -> --barrier.users == 0 ? null : barrier);
    }

    /** Pauses or resumes the sources: while paused, each task holds the next row that it reads. */
    public synchronized void pause(boolean pause) {
        paused = pause;
        notifyAll();
    }

    boolean paused() {
        return paused;
    }

    synchronized void awaitResume() throws InterruptedException {
        while (paused) wait();
    }

    /** Adds the source of a task. */
    static Barrier join(TaskContext task, InFlightOffsets source) {
        String run = run(task);
        Barrier barrier = enter(run);
        barrier.sources.add(source);
        long epoch = epoch(task);
        task.addTaskCompletionListener((TaskCompletionListener) context -> {
            barrier.lastEnded.accumulateAndGet(epoch, Math::max);
            barrier.sources.remove(source);
            leave(run);
        });
        return barrier;
    }

    private static long epoch(TaskContext task) {
        String epoch = task.getLocalProperty(EPOCH);
        return epoch == null ? -1 : Long.parseLong(epoch);
    }

    private static String run(TaskContext task) {
        String run = task.getLocalProperty(RUN);
        return run == null ? "" : run;
    }

    /**
     * Places a barrier between two rows of each source, while the sources continue. If each row is processed before
     * the next one is read, every result of the rows before it is sent when this returns, and none of the rows after
     * it was sent before the call.
     *
     * @return for each source partition, the first row after the barrier; null if a row takes longer than the
     *     deadline, or if a source of the epoch has ended
     */
    public List<RecordPosition> between(long epoch, long deadline) {
        long number = barriers.incrementAndGet();
        List<RecordPosition> positions = poll(deadline,
                () -> hasEnded(epoch) ? List.of() : positions(source -> source.after(number)));
        return hasEnded(epoch) ? null : positions;
    }

    private boolean hasEnded(long epoch) {
        return lastEnded.get() >= epoch;
    }

    /**
     * The next row of each source partition, once every task holds a row or waits for one; null before that, and if a
     * source of the epoch has ended.
     */
    public List<RecordPosition> next(long epoch) {
        List<RecordPosition> positions = positions(InFlightOffsets::next);
        return hasEnded(epoch) ? null : positions;
    }

    /** The positions of the sources that have read a row; null if one of them has none. */
    private List<RecordPosition> positions(Function<InFlightOffsets, RecordPosition> position) {
        List<RecordPosition> all = new ArrayList<>();
        for (InFlightOffsets source : sources) {
            if (!source.hasRead()) continue;
            RecordPosition found = position.apply(source);
            if (found == null) return null;
            all.add(found);
        }
        return all;
    }

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
        return register(task, barrier -> barrier.sent, new RowCount());
    }

    /** Counts the rows that a task receives; a row that is dropped on the way counts as received. */
    public static ReceivedCount receivedBy(TaskContext task) {
        return register(task, barrier -> barrier.received, new ReceivedCount());
    }

    /** Registers a task that must pause before its state is written. */
    public static void onPause(TaskContext task, Pausable pausable) {
        register(task, barrier -> barrier.pausables, pausable);
    }

    /** Registers a function that writes a task's buffered changes into its state. */
    public static void onFlush(TaskContext task, Runnable flush) {
        register(task, barrier -> barrier.flushes, flush);
    }

    private static <T, E extends T> E register(TaskContext task, Function<Barrier, Set<T>> registry, E entry) {
        String run = run(task);
        Set<T> entries = registry.apply(enter(run));
        entries.add(entry);
        task.addTaskCompletionListener((TaskCompletionListener) context -> {
            entries.remove(entry);
            leave(run);
        });
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
    public <T> T whileIdle(long deadline, Action<T> action) throws Exception {
        if (poll(deadline, () -> idle() ? Boolean.TRUE : null) == null) return null;
        List<PausePoint> points = new ArrayList<>();
        try {
            for (Pausable pausable : pausables) {
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
            flushes.forEach(Runnable::run);
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
    private boolean idle() {
        long before = rows(sent);
        return before == rows(received) && received.stream().allMatch(entry -> entry.idle) && before == rows(sent);
    }

    private static long rows(Set<? extends RowCount> counts) {
        return counts.stream().mapToLong(count -> count.rows).sum();
    }
}
