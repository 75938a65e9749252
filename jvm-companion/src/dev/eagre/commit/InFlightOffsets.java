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
 * The offsets of the records that a task has in flight. Several threads may handle the rows of a task, one after
 * another; each records the row it took last, so that a commit knows how far the sources are, and a failure knows
 * its row.
 */
public final class InFlightOffsets {
    private static final Map<Long, InFlightOffsets> TASKS = new ConcurrentHashMap<>();
    private static final String READER = "org.apache.spark.sql.kafka010.KafkaBatchPartitionReader";

    private static volatile boolean paused;

    private final BiConsumer<RecordPosition, Throwable> failures;
    private final Map<Thread, SourcePosition> positions = new ConcurrentHashMap<>();
    private SourcePosition blamed;

    /** The row that a thread took last. */
    public static final class SourcePosition {
        private UTF8String topic = UTF8String.EMPTY_UTF8;
        private int partition;
        private volatile long offset = -1;
        private volatile boolean held;
        private volatile boolean ofSource;

        /** Where that row comes from. */
        RecordPosition record() {
            return new RecordPosition(topic.toString(), partition, offset);
        }

        /** Records a row that another thread passed on. */
        public void set(UTF8String topic, int partition, long offset) {
            if (!topic.equals(this.topic)) this.topic = topic.copy();
            this.partition = partition;
            this.offset = offset;
        }

        /** Records a row that a source returned, and holds it while the sources are paused. */
        public void take(UTF8String topic, int partition, long offset) {
            set(topic, partition, offset);
            ofSource = true;
            if (!paused) return;
            held = true;
            try {
                synchronized (TASKS) {
                    while (paused) TASKS.wait();
                }
            } catch (InterruptedException killed) {
                throw new TaskKilledException();
            }
            held = false;
        }

        /** Whether every row up to this one is processed: its thread waits for the next. */
        private boolean reads(Thread thread) {
            long before = offset;
            for (StackTraceElement frame : thread.getStackTrace()) {
                if (frame.getClassName().equals(READER)) return before == offset;
            }
            return false;
        }

        private RecordPosition next(Thread thread) {
            if (held) return record();
            return offset >= 0 && reads(thread) ? new RecordPosition(topic.toString(), partition, offset + 1) : null;
        }
    }

    private InFlightOffsets(BiConsumer<RecordPosition, Throwable> failures) {
        this.failures = failures;
    }

    /** Those of the task that runs; null where none are tracked. */
    public static InFlightOffsets here() {
        TaskContext task = TaskContext.get();
        return task == null ? null : TASKS.get(task.taskAttemptId());
    }

    /** Tracks the task that runs; {@code failures} gets the record it fails at, with the error. */
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

    /** The row that the calling thread took last; null if it took none from a source. */
    public static RecordPosition last() {
        InFlightOffsets task = here();
        SourcePosition position = task == null ? null : task.positions.get(Thread.currentThread());
        return position == null ? null : position.record();
    }

    /**
     * For each source partition the row that is being processed, or the one that will be read next if there is none.
     * Where each row is processed before the next one is read, all rows before are done.
     */
    public static List<RecordPosition> reached() {
        List<RecordPosition> reached = new ArrayList<>();
        for (InFlightOffsets task : TASKS.values()) {
            task.positions.forEach((thread, position) -> {
                if (!position.ofSource) return;
                RecordPosition next = position.next(thread);
                if (next != null || position.offset >= 0) reached.add(next != null ? next : position.record());
            });
        }
        return reached;
    }

    /** Pauses or resumes the sources: while paused, each task holds the next row it takes. */
    public static void pause(boolean wanted) {
        synchronized (TASKS) {
            paused = wanted;
            TASKS.notifyAll();
        }
    }

    /** The rows that tasks will process next, once each holds one or waits for one; null before. */
    public static List<RecordPosition> next() {
        List<RecordPosition> next = new ArrayList<>();
        for (InFlightOffsets task : TASKS.values()) {
            for (Map.Entry<Thread, SourcePosition> one : task.positions.entrySet()) {
                if (!one.getValue().ofSource) continue;
                RecordPosition position = one.getValue().next(one.getKey());
                if (position == null) return null;
                next.add(position);
            }
        }
        return next;
    }

    /** The calling thread has failed, and another one will report the failure. */
    public synchronized void blame() {
        if (blamed == null) blamed = positions.get(Thread.currentThread());
    }

    private synchronized void failed(TaskContext task, Throwable error) {
        SourcePosition position = blamed != null ? blamed : positions.get(Thread.currentThread());
        if (position != null && !task.isInterrupted()) failures.accept(position.record(), error);
    }
}
