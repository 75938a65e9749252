package dev.eagre.commit;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;

/**
 * The offsets of the records that a task has in flight. Its reader says when it waits for a record, and its parser
 * which record it has got. Several threads may process the rows after that; each records the last row it received. A
 * commit uses this to determine the position of the sources, and a failure to determine its row.
 */
public final class InFlightOffsets {
    /** A micro-batch is not bounded: no commit waits for its rows. */
    private static final int RECORDS_OF_A_MICRO_BATCH = 1024;

    private static final Map<Long, InFlightOffsets> TASKS = new ConcurrentHashMap<>();

    private final TaskContext task;
    private final Barrier barrier;
    private final InFlightWindow window;
    private final Map<Thread, ThreadPosition> positions = new ConcurrentHashMap<>();
    private volatile ThreadPosition source;
    private volatile BiConsumer<RecordPosition, Throwable> failures = (record, error) -> {};
    private volatile boolean realTime;
    private volatile boolean reading;
    private volatile boolean holding;
    private volatile long requested;
    private volatile long passed;
    private RecordPosition afterBarrier;
    private int credit;
    private ThreadPosition blamed;

    /** The last row that a thread received. */
    public static final class ThreadPosition {
        private UTF8String topic = UTF8String.EMPTY_UTF8;
        private int partition;
        private volatile long offset = -1;

        /** The position of that row. */
        RecordPosition record() {
            return new RecordPosition(topic.toString(), partition, offset);
        }

        /** Records a row. */
        public void set(UTF8String topic, int partition, long offset) {
            if (!topic.equals(this.topic)) this.topic = topic.copy();
            this.partition = partition;
            this.offset = offset;
        }
    }

    private InFlightOffsets(TaskContext task) {
        this.task = task;
        barrier = Barrier.of(task);
        window = barrier.windowOf(task.taskAttemptId());
        barrier.join(task, this);
    }

    /** The offsets of the current task; null if it is not tracked. */
    public static InFlightOffsets current() {
        TaskContext task = TaskContext.get();
        return task == null ? null : TASKS.get(task.taskAttemptId());
    }

    /** Tracks the current task; {@code failures} receives the record at which it fails, and the error. */
    public static InFlightOffsets begin(BiConsumer<RecordPosition, Throwable> failures) {
        InFlightOffsets offsets = begin();
        if (offsets != null) offsets.failures = failures;
        return offsets;
    }

    /** Tracks the current task, which reads in real time: its first record is bounded like any other. */
    static InFlightOffsets beginRealTime() {
        InFlightOffsets offsets = begin();
        if (offsets != null) offsets.realTime = true;
        return offsets;
    }

    private static InFlightOffsets begin() {
        TaskContext task = TaskContext.get();
        return task == null ? null : TASKS.computeIfAbsent(task.taskAttemptId(), id -> track(task));
    }

    private static InFlightOffsets track(TaskContext task) {
        InFlightOffsets offsets = new InFlightOffsets(task);
        task.addTaskFailureListener((TaskFailureListener) offsets::failed);
        task.addTaskCompletionListener(
                (TaskCompletionListener) context -> TASKS.remove(context.taskAttemptId()));
        return offsets;
    }

    /**
     * Called by the reader: it asks for the next record, or it has one. When it asks, all records before are
     * processed: a barrier that was requested passes there.
     */
    public void setReading(boolean now) {
        reading = now;
        long barrier = requested;
        if (!now || barrier == passed || source == null) return;
        afterBarrier = following(source.record());
        passed = barrier;
    }

    /**
     * Called by the parser: records a row that the reader returned, and blocks while the sources are paused, or while
     * the rows in flight need long enough.
     */
    public void read(ThreadPosition position, UTF8String topic, int partition, long offset) {
        position.set(topic, partition, offset);
        source = position;
        if (credit == 0 || barrier.paused()) hold();
        credit--;
    }

    /** Holds a row. A pause is looked for again after the flag is cleared: another one may have seen it. */
    private void hold() {
        while (barrier.paused() || (credit = admit()) == 0) {
            holding = true;
            task.killTaskIfInterrupted();
            try {
                if (barrier.paused()) barrier.awaitResume();
                else InFlightWindow.park();
            } catch (InterruptedException killed) {
                throw new TaskKilledException();
            }
            holding = false;
        }
    }

    private int admit() {
        return realTime ? barrier.admit(this) : RECORDS_OF_A_MICRO_BATCH;
    }

    /** The window of the rows between this source and the end of its task. */
    InFlightWindow window() {
        return window;
    }

    /** The position of the calling thread. */
    public ThreadPosition mine() {
        return positions.computeIfAbsent(Thread.currentThread(), thread -> new ThreadPosition());
    }

    /** The last row that the calling thread received; null if it received none. */
    public static RecordPosition lastOfThread() {
        InFlightOffsets task = current();
        ThreadPosition position = task == null ? null : task.positions.get(Thread.currentThread());
        return position == null ? null : position.record();
    }

    /** Whether the reader has returned a row. */
    boolean hasRead() {
        return source != null;
    }

    /** The row after the last one that the reader has returned. */
    RecordPosition afterRead() {
        return following(source.record());
    }

    /** Requests a barrier, and returns the first row after it; null until it has passed. */
    RecordPosition after(long barrier) {
        requested = barrier;
        return passed == barrier ? afterBarrier : next();
    }

    /**
     * The row that the task holds, or the next one if it waits for it; null while it processes a row. The offset is
     * read twice: if it is the same before and after the reader was seen waiting, that row was processed.
     */
    RecordPosition next() {
        ThreadPosition position = source;
        if (position == null) return null;
        RecordPosition before = position.record();
        if (holding) return position.record();
        boolean processed = reading && before.offset() == position.offset;
        return processed ? following(before) : null;
    }

    private static RecordPosition following(RecordPosition record) {
        return new RecordPosition(record.topic(), record.partition(), record.offset() + 1);
    }

    /** Records that the calling thread has failed; another thread will report the failure. */
    public synchronized void blame() {
        if (blamed == null) blamed = positions.get(Thread.currentThread());
    }

    private synchronized void failed(TaskContext task, Throwable error) {
        ThreadPosition position = blamed != null ? blamed : positions.get(Thread.currentThread());
        if (position != null && !task.isInterrupted()) failures.accept(position.record(), error);
    }
}
