package dev.eagre.python;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * The rows on their way to a processor. A thread reads them, so that the processor sees which ones
 * wait behind the row it is given and can ask Python about all of them at once. While none come, an
 * empty row goes down every few milliseconds, if asked for: Spark looks at timers only when a row
 * passes.
 */
final class Ahead extends AbstractIterator<Object> {
    private static final int ROOM = 256;
    private static final Object END = new Object();
    private static final Map<String, Ahead> RUNNING = new ConcurrentHashMap<>();

    private final BlockingQueue<Object> queue = new ArrayBlockingQueue<>(ROOM);
    private final InternalRow tick;
    private final long tickMs;
    private Object next;
    private volatile Throwable failure;

    private Ahead(InternalRow tick, long tickMs) {
        this.tick = tick;
        this.tickMs = tickMs > 0 ? tickMs : Long.MAX_VALUE;
    }

    /** The step of the plan. */
    static final class Step extends Plans.Step {
        private final String processor;
        private final int columns;
        private final long tickMs;

        Step(String processor, int columns, long tickMs) {
            this.processor = processor;
            this.columns = columns;
            this.tickMs = tickMs;
        }

        @Override
        boolean empties() {
            return tickMs > 0;
        }

        @Override
        public Iterator<Object> apply(Iterator<Object> rows) {
            TaskContext task = TaskContext.get();
            String name = name(processor, task);
            Ahead ahead = new Ahead(new GenericInternalRow(new Object[columns]), tickMs);
            RUNNING.put(name, ahead);
            Thread reader = Readers.start(task, () -> ahead.read(rows));
            task.addTaskCompletionListener((TaskCompletionListener) context -> {
                RUNNING.remove(name);
                Readers.stop(reader);
            });
            return ahead;
        }
    }

    private static String name(String processor, TaskContext task) {
        return processor + "/" + task.taskAttemptId();
    }

    /** Gives what stands before a processor in this task; null if nothing does. */
    static Ahead of(String processor, TaskContext task) {
        return RUNNING.get(name(processor, task));
    }

    /** The rows that wait, the next one first. */
    List<InternalRow> waiting(int most) {
        List<InternalRow> rows = new ArrayList<>();
        if (queue.isEmpty()) return rows;
        for (Object row : queue) {
            if (row == END || rows.size() == most) break;
            rows.add((InternalRow) row);
        }
        return rows;
    }

    private void read(Iterator<Object> rows) {
        try {
            while (rows.hasNext()) {
                queue.put(rows.next());
            }
        } catch (Throwable error) {
            failure = error;
        }
        try {
            queue.put(END);
        } catch (InterruptedException error) {
            // The task is over; nobody waits.
        }
    }

    @Override
    public boolean hasNext() {
        if (next == null) next = poll();
        if (next == END && failure != null) Readers.rethrow(failure);
        return next != END;
    }

    private Object poll() {
        try {
            Object row = queue.poll(tickMs, TimeUnit.MILLISECONDS);
            return row == null ? tick : row;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new TaskKilledException();
        }
    }

    @Override
    public Object next() {
        Object row = next;
        next = null;
        return row;
    }
}
