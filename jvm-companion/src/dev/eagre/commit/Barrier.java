package dev.eagre.commit;

import dev.eagre.spark.StreamingRun;
import dev.eagre.testing.FaultPoint;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Finds the moment at which no row of a query is in flight. Rows are counted when they are sent from task to task
 * within this JVM, or to Python and back, and when they are received. The sources pause first, and with them the
 * timers. When as many rows have been received as sent, and every task waits for the next row, no row is in flight.
 * The state then reflects a known position of each source.
 *
 * <p>There is one barrier for each run of a query; its tasks find it by the run that started them.
 */
public final class Barrier {
    private static final String EPOCH = "streaming.sql.batchId";

    /** What other executors have received is known some milliseconds later: a smaller window would hold quick rows. */
    private static final int FIRST_ROWS_OVER_NETWORK = 128;

    /** Older figures of other executors say nothing: the driver is paused, or nobody asks it. */
    private static final long FRESH_NANOS = 1_000_000_000;

    private static final Map<String, Barrier> RUNS = new ConcurrentHashMap<>();

    private final Set<InFlightOffsets> sources = ConcurrentHashMap.newKeySet();
    private final Set<Long> sourceTasks = ConcurrentHashMap.newKeySet();
    private final RowsInFlight rows = new RowsInFlight();
    private final Set<Runnable> flushes = ConcurrentHashMap.newKeySet();
    private final AtomicLong barriers = new AtomicLong();

    /**
     * The last epoch in which a task has ended: the position of its source is no longer known, and its rows in flight are
     * lost, so that epoch has no more commits.
     */
    private final AtomicLong lastEnded = new AtomicLong(-1);

    /** Bounds the rows behind the shuffles of a run: all of its sources feed them. */
    private final InFlightWindow shared = rows.window(InFlightWindow.FIRST_ROWS, this::isShared);

    /** Bounds the rows on their way between executors, of which other JVMs know the rest. */
    private final InFlightWindow network = new InFlightWindow(
            FIRST_ROWS_OVER_NETWORK, this::onNetwork, () -> rows.sent(RowCount::overNetwork), System::nanoTime);

    private volatile NetworkRows elsewhere = new NetworkRows(0, 0, 0);
    private volatile long elsewhereAt = System.nanoTime() - FRESH_NANOS;
    private volatile boolean paused;
    private boolean released;
    private int users;

    /** Whether the run commits within its epochs. */
    private volatile boolean commits;

    private Barrier() {}

    /** The barrier of a run; the caller releases it with {@link #release}. */
    public static Barrier of(UUID run) {
        Barrier barrier = enter(run.toString());
        barrier.commits = true;
        return barrier;
    }

    /**
     * Forgets the barrier of a run that has been stopped, when its last task has ended. Sources that are paused stay
     * so: the last commit does not cover the row that they hold, and Spark has not ended every task yet.
     */
    public void release(UUID run) {
        synchronized (this) {
            released = true;
            notifyAll();
        }
        leave(run.toString());
    }

    /**
     * Waits until all tasks of a run have ended and its barrier is released. Spark kills the tasks of a stopped query
     * without waiting for them, and until they have ended they may read and write.
     *
     * @return whether they ended in time
     */
    public static boolean awaitEnd(UUID run, long waitMs) {
        return Deadline.in(waitMs).poll(() -> RUNS.containsKey(run.toString()) ? null : Boolean.TRUE) != null;
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

    /** Pauses or resumes the sources and timers: while paused, each task holds the next row that it reads. */
    public synchronized void pause(boolean pause) {
        windows().forEach(InFlightWindow::disturb);
        paused = pause;
        notifyAll();
    }

    boolean paused() {
        return paused;
    }

    /**
     * How many records a source may let in before it asks again; 0 while the rows in flight need long enough. A source
     * asks for each record until a task has something to send rows to: its functions may start after it.
     */
    int admit(InFlightOffsets source) {
        if (rows.noneSent()) return 1;
        int admitted = source.window().admit(1);
        if (admitted > 0 && rows.anySent(this::isShared)) {
            admitted = Math.min(admitted, shared.admit(sources.size()));
        }
        if (admitted > 0 && System.nanoTime() - elsewhereAt < FRESH_NANOS && rows.anySent(RowCount::overNetwork)) {
            admitted = Math.min(admitted, network.admit(sources.size() + elsewhere.sources));
        }
        return admitted;
    }

    /**
     * Rows that tasks have sent to tasks of any JVM, and received from them.
     *
     * @param sources the number of sources, which share the window of these rows
     */
    public record NetworkRows(long sent, long received, int sources) {}

    /** The rows of this JVM's tasks. */
    public NetworkRows networkRows() {
        return new NetworkRows(rows.sent(RowCount::overNetwork), rows.received(RowCount::overNetwork), sources.size());
    }

    /** Sets what the other JVMs of the run have sent and received. */
    public void setElsewhere(NetworkRows rows) {
        elsewhere = rows;
        elsewhereAt = System.nanoTime();
    }

    private long onNetwork() {
        NetworkRows here = networkRows();
        NetworkRows there = elsewhere;
        return here.sent + there.sent - here.received - there.received;
    }

    /** The window of the rows between a source and the end of its task. */
    InFlightWindow windowOf(long task) {
        return rows.window(InFlightWindow.FIRST_ROWS, count -> count.withinTask() && count.task == task);
    }

    private Stream<InFlightWindow> windows() {
        return Stream.concat(Stream.of(shared, network), sources.stream().map(InFlightOffsets::window));
    }

    private boolean isShared(RowCount count) {
        return !count.overNetwork() && !(count.withinTask() && sourceTasks.contains(count.task));
    }

    /** Blocks a source that holds a row; throws if the run has been stopped. */
    synchronized void awaitResume() throws InterruptedException {
        while (paused) {
            if (released) throw new TaskKilledException("the query has been stopped");
            wait();
        }
    }

    /** The barrier of a task's run, until the task has ended. */
    static Barrier of(TaskContext task) {
        String run = StreamingRun.of(task);
        task.addTaskCompletionListener((TaskCompletionListener) context -> leave(run));
        return enter(run);
    }

    /** Adds the source of a task. */
    void join(TaskContext task, InFlightOffsets source) {
        if (commits && (task.attemptNumber() > 0 || task.stageAttemptNumber() > 0)) {
            throw new IllegalStateException("TASK_RETRIED: a task that is tried again would start at the beginning of"
                    + " its epoch, before the last commit; the query must start again");
        }
        sources.add(source);
        sourceTasks.add(task.taskAttemptId());
        long epoch = epoch(task);
        task.addTaskCompletionListener((TaskCompletionListener) context -> {
            lastEnded.accumulateAndGet(epoch, Math::max);
            sources.remove(source);
            sourceTasks.remove(task.taskAttemptId());
        });
    }

    private static long epoch(TaskContext task) {
        String epoch = task.getLocalProperty(EPOCH);
        return epoch == null ? -1 : Long.parseLong(epoch);
    }

    /**
     * Places a barrier between two rows of each source, while the sources continue. If each row is processed before
     * the next one is read, every result of the rows before it is sent when this returns, and none of the rows after
     * it was sent before the call.
     *
     * @return for each source partition, the first row after the barrier; null if a row takes longer than the
     *     deadline, or if a source of the epoch has ended
     */
    public List<RecordPosition> between(long epoch, Deadline deadline) {
        long number = barriers.incrementAndGet();
        List<RecordPosition> positions = deadline.poll(() -> hasEnded(epoch) ? List.of() : passed(number));
        return hasEnded(epoch) ? null : positions;
    }

    /** For each source partition, the first row after a barrier, which is placed if it is new; null until all have passed it. */
    public List<RecordPosition> passed(long number) {
        return positions(source -> source.after(number));
    }

    /** Whether a task of the epoch has ended. */
    public boolean hasEnded(long epoch) {
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

    /** For each source partition, the row after the last one that was read. */
    public List<RecordPosition> afterRead() {
        return positions(InFlightOffsets::afterRead);
    }

    /** The positions of the sources that have read a row; null if one of them has none. */
    private List<RecordPosition> positions(Function<InFlightOffsets, RecordPosition> position) {
        List<RecordPosition> all = new ArrayList<>();
        for (InFlightOffsets source : sources) {
            if (!source.hasRead()) continue;
            RecordPosition next = position.apply(source);
            if (next == null) return null;
            all.add(next);
        }
        return all;
    }

    /** Counts the rows that a task sends to a thread of its own or to another process. */
    public static RowCount sentBy(TaskContext task) {
        return sentBy(task, RowCount.Way.TASK);
    }

    /** Counts the rows that a task sends to other tasks of this JVM. */
    public static RowCount shuffledBy(TaskContext task) {
        return sentBy(task, RowCount.Way.JVM);
    }

    /** Counts the rows that a task sends to tasks of any JVM. */
    public static RowCount sentOverNetworkBy(TaskContext task) {
        return sentBy(task, RowCount.Way.NETWORK);
    }

    private static RowCount sentBy(TaskContext task, RowCount.Way way) {
        return register(task, barrier -> barrier.rows.sent, barrier -> new RowCount(task, way));
    }

    /** Counts the rows that a task receives; a row that is dropped on the way counts as received. */
    public static ReceivedCount receivedBy(TaskContext task) {
        return receivedBy(task, RowCount.Way.TASK);
    }

    /** Counts the rows that a task receives from tasks of any JVM. */
    public static ReceivedCount receivedOverNetworkBy(TaskContext task) {
        return receivedBy(task, RowCount.Way.NETWORK);
    }

    private static ReceivedCount receivedBy(TaskContext task, RowCount.Way way) {
        return register(task, barrier -> barrier.rows.received, barrier -> new ReceivedCount(task, barrier, way));
    }

    /** Registers a function that writes a task's buffered changes into its state. */
    public static void onFlush(TaskContext task, Runnable flush) {
        register(task, barrier -> barrier.flushes, barrier -> flush);
    }

    private static <T> T register(TaskContext task, Function<Barrier, Set<T>> registry, Function<Barrier, T> create) {
        String run = StreamingRun.of(task);
        Barrier barrier = enter(run);
        Set<T> entries = registry.apply(barrier);
        T entry = create.apply(barrier);
        entries.add(entry);
        long epoch = epoch(task);
        task.addTaskCompletionListener((TaskCompletionListener) context -> {
            barrier.lastEnded.accumulateAndGet(epoch, Math::max); // before its rows are forgotten
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
     * Waits for the rows in flight, and runs the action. The sources must be paused before the call, and until it
     * returns.
     *
     * @return the result of the action; null if rows are still in flight at the deadline
     */
    public <T> T whileIdle(Deadline deadline, Action<T> action) throws Exception {
        if (deadline.poll(() -> rows.idle() ? Boolean.TRUE : null) == null) return null;
        flush();
        return action.run();
    }

    /** Writes the buffered changes of tasks into their state; no row may be in flight. */
    public void flush() {
        windows().forEach(InFlightWindow::idle);
        for (Runnable flush : flushes) {
            flush.run();
            FaultPoint.reach("task flushed");
        }
    }

    /** The rows that the tasks of this JVM have sent and received. */
    public RowsInFlight.Counts counts() {
        return rows.counts();
    }

    /** What keeps a barrier from passing, in a few words. */
    public String waitsFor() {
        long inFlight = rows.inFlight(count -> true);
        long busy = sources.stream().filter(source -> source.hasRead() && source.next() == null).count()
                + rows.busy();
        if (inFlight > 0) return inFlight + (inFlight == 1 ? " row is" : " rows are") + " in flight";
        if (busy > 0) return busy + (busy == 1 ? " task is" : " tasks are") + " processing a row";
        return "the query's tasks have not started";
    }
}
