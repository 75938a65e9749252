package dev.eagre.shuffle;

import dev.eagre.commit.Barrier;
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

/** The rows on their way from all writers of a shuffle to one of its readers; so many that they fit into a memory. */
public final class RowQueue {
    private static final int ROOM_BYTES = 1 << 18;
    private static final int OTHER_BYTES = 1 << 10;
    private static final long LOOK_MS = 20;
    private static final Object END = new Object();
    private static final Map<Long, RowQueue> READ = new ConcurrentHashMap<>();

    private final BlockingQueue<Object> queue = new LinkedBlockingQueue<>();
    private final Semaphore room = new Semaphore(ROOM_BYTES);

    /** The reader's own: taken in one go, as each call of the queue may wake a writer. */
    private final Queue<Object> taken = new ArrayDeque<>();

    private TaskContext reader;
    private Barrier.Arrivals arrivals;
    private Object next;
    private int writers;

    RowQueue(int writers) {
        this.writers = writers;
    }

    /** Gives the lane whose rows a task reads; null if they come from elsewhere. */
    public static RowQueue of(TaskContext task) {
        return READ.get(task.taskAttemptId());
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
        queue.add(kept);
    }

    /** One of the writers has no more. */
    void end() {
        queue.add(END);
    }

    /** All rows for the reader; they end when all writers have ended. */
    <K, C> Iterator<Product2<K, C>> rows(TaskContext task) {
        reader = task;
        arrivals = Barrier.arriving(task);
        READ.put(task.taskAttemptId(), this);
        task.addTaskCompletionListener((TaskCompletionListener) context -> READ.remove(task.taskAttemptId()));
        return new AbstractIterator<>() {
            @Override
            public boolean hasNext() {
                while (!comes(LOOK_MS)) {}
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

    /** The reader stands still here, behind the rows that have been put. */
    public void halt(Barrier.Halt halt) {
        queue.add(halt);
    }

    /** The reader's: whether it is known within so many milliseconds that there is a next row, or none any more. */
    public boolean comes(long ms) {
        try {
            while (next == null && writers > 0) {
                if (taken.isEmpty()) queue.drainTo(taken);
                Object one = taken.poll();
                if (one == null) {
                    arrivals.waits(true);
                    one = queue.poll(ms, TimeUnit.MILLISECONDS);
                    if (one == null) {
                        requireRunning(reader);
                        return false;
                    }
                }
                if (one instanceof Barrier.Halt halt) {
                    halt.pass();
                } else if (one != END) {
                    arrivals.waits(false);
                    next = one;
                } else if (--writers == 0) {
                    arrivals.waits(true);
                }
            }
            return true;
        } catch (InterruptedException killed) {
            throw over();
        }
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
