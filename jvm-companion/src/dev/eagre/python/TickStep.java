package dev.eagre.python;

import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * Rows as they come and, while none come, an empty row every few milliseconds: Spark looks at its
 * timers only when a row passes.
 */
final class TickStep extends Plans.Step {
    private static final Object END = new Object();

    private final int columns;
    private final long everyMs;

    TickStep(int columns, long everyMs) {
        this.columns = columns;
        this.everyMs = everyMs;
    }

    @Override
    boolean empties() {
        return true;
    }

    @Override
    public Iterator<Object> apply(Iterator<Object> rows) {
        return new Ticking(rows, new GenericInternalRow(new Object[columns]), everyMs);
    }

    private static final class Ticking extends AbstractIterator<Object> {
        private final BlockingQueue<Object> queue = new ArrayBlockingQueue<>(256);
        private final InternalRow tick;
        private final long everyMs;
        private Object next;
        private volatile Throwable failure;

        Ticking(Iterator<Object> rows, InternalRow tick, long everyMs) {
            this.tick = tick;
            this.everyMs = everyMs;
            TaskContext task = TaskContext.get();
            Thread reader = Readers.start(task, () -> read(rows));
            task.addTaskCompletionListener((TaskCompletionListener) context -> Readers.stop(reader));
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
                Object row = queue.poll(everyMs, TimeUnit.MILLISECONDS);
                return row == null ? tick : row;
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new org.apache.spark.TaskKilledException();
            }
        }

        @Override
        public Object next() {
            Object row = next;
            next = null;
            return row;
        }
    }
}
