package dev.eagre.commit;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;

/**
 * The offsets of the records that a task has in flight. Several threads may process the rows of a task. Each records
 * the last row it read. A commit uses this to determine the position of the sources, and a failure to determine its
 * row.
 */
public final class InFlightOffsets {
    private static final Map<Long, InFlightOffsets> TASKS = new ConcurrentHashMap<>();
    private static final String READER = "org.apache.spark.sql.kafka010.KafkaBatchPartitionReader";

    private static volatile boolean paused;

    private final BiConsumer<RecordPosition, Throwable> failures;
    private final Map<Thread, SourcePosition> positions = new ConcurrentHashMap<>();
    private SourcePosition blamed;

    /** The last row that a thread read. */
    public static final class SourcePosition {
        private UTF8String topic = UTF8String.EMPTY_UTF8;
        private int partition;
        private volatile long offset = -1;
        private volatile boolean holding;
        private volatile boolean fromSource;

        /** The position of that row. */
        RecordPosition record() {
            return new RecordPosition(topic.toString(), partition, offset);
        }

        /** Records a row that another thread passed on. */
        public void set(UTF8String topic, int partition, long offset) {
            if (!topic.equals(this.topic)) this.topic = topic.copy();
            this.partition = partition;
            this.offset = offset;
        }

        /** Records a row that a source returned, and blocks while the sources are paused. */
        public void read(UTF8String topic, int partition, long offset) {
            set(topic, partition, offset);
            fromSource = true;
            if (!paused) return;
            holding = true;
            try {
                synchronized (TASKS) {
                    while (paused) TASKS.wait();
                }
            } catch (InterruptedException killed) {
                throw new TaskKilledException();
            }
            holding = false;
        }

        /** Whether every row up to this one is processed: its thread waits for the next row. */
        private boolean waitsForNext(Thread thread) {
            long before = offset;
            for (StackTraceElement frame : thread.getStackTrace()) {
                if (frame.getClassName().equals(READER)) return before == offset;
            }
            return false;
        }

        private RecordPosition next(Thread thread) {
            if (holding) return record();
            return offset >= 0 && waitsForNext(thread) ? new RecordPosition(topic.toString(), partition, offset + 1) : null;
        }
    }

    private InFlightOffsets(BiConsumer<RecordPosition, Throwable> failures) {
        this.failures = failures;
    }

    /** The offsets of the current task; null if it is not tracked. */
    public static InFlightOffsets current() {
        TaskContext task = TaskContext.get();
        return task == null ? null : TASKS.get(task.taskAttemptId());
    }

    /** Tracks the current task; {@code failures} receives the record at which it fails, and the error. */
    public static InFlightOffsets begin(BiConsumer<RecordPosition, Throwable> failures) {
        TaskContext task = TaskContext.get();
        return task == null ? null : TASKS.computeIfAbsent(task.taskAttemptId(), id -> track(task, failures));
    }

    private static InFlightOffsets track(TaskContext task, BiConsumer<RecordPosition, Throwable> failures) {
        InFlightOffsets offsets = new InFlightOffsets(failures);
        task.addTaskFailureListener((TaskFailureListener) offsets::failed);
        task.addTaskCompletionListener(
                (TaskCompletionListener) context -> TASKS.remove(context.taskAttemptId()));
        return offsets;
    }

    /** The position of the calling thread. */
    public SourcePosition mine() {
        return positions.computeIfAbsent(Thread.currentThread(), thread -> new SourcePosition());
    }

    /** The last row that the calling thread read; null if it read none from a source. */
    public static RecordPosition last() {
        InFlightOffsets task = current();
        SourcePosition position = task == null ? null : task.positions.get(Thread.currentThread());
        return position == null ? null : position.record();
    }

    /**
     * For each source partition, the row in flight, or the next row if none is in flight. If each row is processed
     * before the next one is read, all earlier rows are processed.
     */
    public static List<RecordPosition> reached() {
        List<RecordPosition> reached = new ArrayList<>();
        for (InFlightOffsets task : TASKS.values()) {
            task.positions.forEach((thread, position) -> {
                if (!position.fromSource) return;
                RecordPosition next = position.next(thread);
                if (next != null || position.offset >= 0) reached.add(next != null ? next : position.record());
            });
        }
        return reached;
    }

    /** Pauses or resumes the sources: while paused, each task holds the next row it reads. */
    public static void pause(boolean pause) {
        synchronized (TASKS) {
            paused = pause;
            TASKS.notifyAll();
        }
    }

    /** The next row of each task, once every task holds a row or waits for one; null before that. */
    public static List<RecordPosition> next() {
        List<RecordPosition> next = new ArrayList<>();
        for (InFlightOffsets task : TASKS.values()) {
            for (Map.Entry<Thread, SourcePosition> entry : task.positions.entrySet()) {
                if (!entry.getValue().fromSource) continue;
                RecordPosition position = entry.getValue().next(entry.getKey());
                if (position == null) return null;
                next.add(position);
            }
        }
        return next;
    }

    /** Records that the calling thread has failed; another thread will report the failure. */
    public synchronized void blame() {
        if (blamed == null) blamed = positions.get(Thread.currentThread());
    }

    private synchronized void failed(TaskContext task, Throwable error) {
        SourcePosition position = blamed != null ? blamed : positions.get(Thread.currentThread());
        if (position != null && !task.isInterrupted()) failures.accept(position.record(), error);
    }
}
