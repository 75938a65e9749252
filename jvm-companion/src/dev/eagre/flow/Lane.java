package dev.eagre.flow;

import java.util.ArrayDeque;
import java.util.NoSuchElementException;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import scala.Product2;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** The rows on their way from all writers of a shuffle to one of its readers; so many that they fit into a memory. */
final class Lane {
    private static final int ROOM_BYTES = 1 << 18;
    private static final int OTHER_BYTES = 1 << 10;
    private static final long LOOK_MS = 20;
    private static final Object END = new Object();

    private final BlockingQueue<Object> rows = new LinkedBlockingQueue<>();
    private final Semaphore room = new Semaphore(ROOM_BYTES);

    /** The reader's own: taken in one go, as each call of the queue may wake a writer. */
    private final Queue<Object> taken = new ArrayDeque<>();

    private int writers;

    Lane(int writers) {
        this.writers = writers;
    }

    /** A writer's row: a copy, since the next one may come in the same memory. */
    void put(Object row, TaskContext task) {
        Object kept = row instanceof InternalRow internal ? internal.copy() : row;
        int bytes = bytes(kept);
        try {
            while (!room.tryAcquire(bytes) && !room.tryAcquire(bytes, LOOK_MS, TimeUnit.MILLISECONDS)) {
                requireRunning(task);
            }
        } catch (InterruptedException killed) {
            throw over();
        }
        rows.add(kept);
    }

    /** One of the writers has no more. */
    void end() {
        rows.add(END);
    }

    /** All rows for the reader; they end when all writers have ended. */
    <K, C> Iterator<Product2<K, C>> rows(TaskContext task) {
        Flow.Arrivals arrivals = Flow.arriving(task);
        return new AbstractIterator<>() {
            private Object next;

            @Override
            public boolean hasNext() {
                while (next == null && writers > 0) {
                    Object row = Lane.this.next(task, arrivals);
                    if (row != END) next = row;
                    else if (--writers == 0) arrivals.waits(true);
                }
                return next != null;
            }

            @Override
            @SuppressWarnings("unchecked")
            public Product2<K, C> next() {
                if (!hasNext()) throw new NoSuchElementException();
                Object row = next;
                next = null;
                arrivals.one();
                room.release(bytes(row));
                return (Product2<K, C>) (Product2<?, ?>) new Tuple2<>(null, row);
            }
        };
    }

    private Object next(TaskContext task, Flow.Arrivals arrivals) {
        if (taken.isEmpty()) rows.drainTo(taken);
        Object row = taken.poll();
        if (row != null) return row;
        arrivals.waits(true);
        try {
            while (row == null) {
                row = rows.poll(LOOK_MS, TimeUnit.MILLISECONDS);
                if (row == null) requireRunning(task);
            }
        } catch (InterruptedException killed) {
            throw over();
        }
        arrivals.waits(false);
        return row;
    }

    private static int bytes(Object row) {
        return row instanceof UnsafeRow unsafe ? Math.min(unsafe.getSizeInBytes(), ROOM_BYTES) : OTHER_BYTES;
    }

    private static void requireRunning(TaskContext task) {
        task.killTaskIfInterrupted();
        if (task.isFailed() || task.isCompleted()) throw over();
    }

    private static TaskKilledException over() {
        return new TaskKilledException("the task is over");
    }
}
