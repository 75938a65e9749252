package dev.eagre.shuffle;

import dev.eagre.commit.Barrier;
import dev.eagre.commit.ReceivedCount;
import java.util.ArrayDeque;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.util.TaskCompletionListener;
import scala.Product2;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** The bounded queue of rows from all writers of a shuffle to one of its readers. */
public final class RowQueue {
    private static final int CAPACITY_BYTES = 1 << 18;
    private static final int DEFAULT_ROW_BYTES = 1 << 10;
    private static final long POLL_MS = 20;
    private static final Object END = new Object();
    private static final Map<Long, RowQueue> BY_READER = new ConcurrentHashMap<>();

    private final BlockingQueue<Object> queue = new LinkedBlockingQueue<>();
    private final Semaphore capacity = new Semaphore(CAPACITY_BYTES);

    /** Rows drained by the reader in one call, because each call of the queue may wake a writer. */
    private final Queue<Object> drained = new ArrayDeque<>();

    private TaskContext reader;
    private ReceivedCount received;
    private Object next;
    private int writers;

    RowQueue(int writers) {
        this.writers = writers;
    }

    /** The queue that a task reads from; null if its rows do not come from a queue. */
    public static RowQueue of(TaskContext task) {
        return BY_READER.get(task.taskAttemptId());
    }

    /** Adds a copy of a writer's row, because the writer may reuse its memory for the next row. */
    void put(Object row, TaskContext task) {
        Object copy = row instanceof InternalRow internal ? internal.copy() : row;
        int bytes = bytes(copy);
        try {
            while (!capacity.tryAcquire(bytes) && !capacity.tryAcquire(bytes, POLL_MS, TimeUnit.MILLISECONDS)) {
                requireRunning(task);
            }
        } catch (InterruptedException killed) {
            throw ended();
        }
        queue.add(copy);
    }

    /** Signals that one of the writers has no more rows. */
    void end() {
        queue.add(END);
    }

    /** The rows of the reader; the iterator ends when all writers have ended. */
    <K, C> Iterator<Product2<K, C>> rows(TaskContext task) {
        reader = task;
        received = Barrier.receivedBy(task);
        BY_READER.put(task.taskAttemptId(), this);
        task.addTaskCompletionListener((TaskCompletionListener) context -> BY_READER.remove(task.taskAttemptId()));
        return new AbstractIterator<>() {
            @Override
            public boolean hasNext() {
                while (!awaitNext(POLL_MS)) {}
                return next != null;
            }

            @Override
            @SuppressWarnings("unchecked")
            public Product2<K, C> next() {
                if (!hasNext()) throw new NoSuchElementException();
                Object row = next;
                next = null;
                received.increment();
                capacity.release(bytes(row));
                return (Product2<K, C>) (Product2<?, ?>) new Tuple2<>(null, row);
            }
        };
    }

    /** Called by the reader: waits for the next row or the end; false if neither arrives within the time. */
    public boolean awaitNext(long ms) {
        try {
            while (next == null && writers > 0) {
                if (drained.isEmpty()) queue.drainTo(drained);
                Object item = drained.poll();
                if (item == null) {
                    received.setIdle(true);
                    item = queue.poll(ms, TimeUnit.MILLISECONDS);
                    if (item == null) {
                        requireRunning(reader);
                        return false;
                    }
                }
                if (item != END) {
                    received.setIdle(false);
                    next = item;
                } else if (--writers == 0) {
                    received.setIdle(true);
                }
            }
            return true;
        } catch (InterruptedException killed) {
            throw ended();
        }
    }

    /** Whether the reader, which waits for a row, may fire its timers now. */
    boolean mayFireTimers() {
        return received.mayFireTimers();
    }

    private static int bytes(Object row) {
        return row instanceof UnsafeRow unsafe ? Math.min(unsafe.getSizeInBytes(), CAPACITY_BYTES) : DEFAULT_ROW_BYTES;
    }

    private static void requireRunning(TaskContext task) {
        task.killTaskIfInterrupted();
        if (task.isFailed() || task.isCompleted()) throw ended();
    }

    private static TaskKilledException ended() {
        return new TaskKilledException("the task has ended");
    }
}
