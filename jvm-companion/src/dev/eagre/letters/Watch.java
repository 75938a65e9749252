package dev.eagre.letters;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;

/**
 * Which row a task was at when it failed. Rows of a task may be handled by several threads, one after
 * another; each thread notes the row it took last, and the one that failed is asked.
 */
public final class Watch {
    private static final Map<Long, Watch> TASKS = new ConcurrentHashMap<>();
    private static final List<String> OURS =
            List.of("PYTHON_FUNCTION_FAILED", "RECORD_REFUSED", "ROW_TOO_LARGE", "DEAD_LETTER_LOST");
    private static final List<String> SURROUNDINGS =
            List.of("org.apache.kafka.", "java.net.", "java.util.concurrent.", "org.apache.hadoop.", "org.rocksdb.",
                    "org.apache.spark.shuffle.");
    private static final String READER = "org.apache.spark.sql.kafka010.KafkaBatchPartitionReader";

    private static volatile boolean closed;

    private final Suspects suspects;
    private final Map<Thread, Note> notes = new ConcurrentHashMap<>();
    private Note blamed;

    /** The row that a thread took last. */
    public static final class Note {
        private UTF8String topic = UTF8String.EMPTY_UTF8;
        private int partition;
        private volatile long offset = -1;
        private volatile boolean held;
        private volatile boolean ofSource;

        /** Where that row comes from. */
        Position position() {
            return new Position(topic.toString(), partition, offset);
        }

        /** Notes a row that is handed on. */
        public void set(UTF8String topic, int partition, long offset) {
            if (!topic.equals(this.topic)) this.topic = topic.copy();
            this.partition = partition;
            this.offset = offset;
        }

        /** Notes a row that a source gives, and keeps it for as long as no more are wanted. */
        void take(UTF8String topic, int partition, long offset) {
            set(topic, partition, offset);
            ofSource = true;
            if (!closed) return;
            held = true;
            try {
                synchronized (TASKS) {
                    while (closed) TASKS.wait();
                }
            } catch (InterruptedException killed) {
                throw new TaskKilledException();
            }
            held = false;
        }

        /** Whether every row up to this one is done: its thread waits for the next. */
        private boolean reads(Thread thread) {
            long before = offset;
            for (StackTraceElement frame : thread.getStackTrace()) {
                if (frame.getClassName().equals(READER)) return before == offset;
            }
            return false;
        }

        private Position next(Thread thread) {
            if (held) return position();
            return offset >= 0 && reads(thread) ? new Position(topic.toString(), partition, offset + 1) : null;
        }
    }

    private Watch(Suspects suspects) {
        this.suspects = suspects;
    }

    /** The watch over the task that runs; null where nothing is watched. */
    public static Watch here() {
        TaskContext task = TaskContext.get();
        return task == null ? null : TASKS.get(task.taskAttemptId());
    }

    /** Watches over the task that runs; what it fails at becomes known as a suspect. */
    static Watch begin(Suspects suspects) {
        TaskContext task = TaskContext.get();
        return task == null ? null : TASKS.computeIfAbsent(task.taskAttemptId(), id -> over(task, suspects));
    }

    private static Watch over(TaskContext task, Suspects suspects) {
        Watch watch = new Watch(suspects);
        task.addTaskFailureListener((TaskFailureListener) watch::failed);
        task.addTaskCompletionListener(
                (TaskCompletionListener) context -> TASKS.remove(context.taskAttemptId()));
        return watch;
    }

    /** The note of the thread that asks. */
    public Note mine() {
        return notes.computeIfAbsent(Thread.currentThread(), thread -> new Note());
    }

    /** The row that the thread which asks took last; null if it took none from a source. */
    static Position last() {
        Watch watch = here();
        Note note = watch == null ? null : watch.notes.get(Thread.currentThread());
        return note == null ? null : note.position();
    }

    /**
     * The rows that tasks of this JVM have in work, each the last one taken from its partition, or will take next
     * if they have none. Where each row is worked off before the next one is taken, all rows before are done.
     */
    public static List<Position> reached() {
        List<Position> reached = new ArrayList<>();
        for (Watch watch : TASKS.values()) {
            watch.notes.forEach((thread, note) -> {
                if (!note.ofSource) return;
                Position next = note.next(thread);
                if (next != null || note.offset >= 0) reached.add(next != null ? next : note.position());
            });
        }
        return reached;
    }

    /** From now on tasks keep the next row that they take; or no longer. */
    public static void close(boolean wanted) {
        synchronized (TASKS) {
            closed = wanted;
            TASKS.notifyAll();
        }
    }

    /** The rows that tasks will take next, once each of them keeps one or waits for it; null before. */
    public static List<Position> next() {
        List<Position> next = new ArrayList<>();
        for (Watch watch : TASKS.values()) {
            for (Map.Entry<Thread, Note> one : watch.notes.entrySet()) {
                if (!one.getValue().ofSource) continue;
                Position position = one.getValue().next(one.getKey());
                if (position == null) return null;
                next.add(position);
            }
        }
        return next;
    }

    /** The thread that asks has failed, and another one will tell. */
    public synchronized void blame() {
        if (blamed == null) blamed = notes.get(Thread.currentThread());
    }

    private synchronized void failed(TaskContext task, Throwable error) {
        Note note = blamed != null ? blamed : notes.get(Thread.currentThread());
        if (note == null || task.isInterrupted() || !rowsFault(error)) return;
        suspects.add(note.position());
    }

    /** Whether it may be the row's fault: not an outage, not a kill, and not what the user asked for. */
    static boolean rowsFault(Throwable error) {
        for (Throwable one = error; one != null; one = one.getCause()) {
            String type = one.getClass().getName();
            String text = String.valueOf(one.getMessage());
            if (one instanceof TaskKilledException || one instanceof InterruptedException) return false;
            if (SURROUNDINGS.stream().anyMatch(type::startsWith)) return false;
            if (OURS.stream().anyMatch(text::startsWith)) return false;
        }
        return true;
    }
}
