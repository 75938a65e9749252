package dev.eagre.shuffle;

import dev.eagre.commit.Barrier;
import dev.eagre.commit.ReceivedCount;
import dev.eagre.commit.RowCount;
import dev.eagre.spark.RowSteps;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * Prefetches the rows of a processor. While rows arrive one by one, the task's own thread reads them
 * from Spark directly, which is fastest. When rows start to queue up, a second thread reads ahead, so
 * that the processor sees the rows that follow and sends all of them to Python in one request. The
 * thread stops when no rows are waiting. For a processor with timers it always reads. While no row
 * arrives, an empty row is passed on every few milliseconds, because Spark checks timers only when a
 * row passes.
 */
public final class Prefetch extends AbstractIterator<Object> {
    private static final int CAPACITY = 256;
    private static final int ROWS_TO_START = 16;
    private static final int ROWS_TO_STOP = 64;
    private static final long IMMEDIATE_NANOS = 20_000;
    private static final Object END = new Object();
    private static final Object PAUSE = new Object();
    private static final Map<String, Prefetch> RUNNING = new ConcurrentHashMap<>();

    private final BlockingQueue<Object> queue = new ArrayBlockingQueue<>(CAPACITY);

    /** Rows drained from the queue in one call; taking them one by one would wake the second thread each time. */
    private final Queue<Object> drained = new ArrayDeque<>(CAPACITY);

    private final Semaphore requested = new Semaphore(0);
    private final Iterator<Object> rows;
    private final InternalRow tick;
    private final long tickMs;
    private final RowCount sent;
    private final ReceivedCount received;
    private Object next;
    private boolean reading;
    private int streak;
    private volatile boolean pausing;
    private volatile Throwable failure;

    private Prefetch(TaskContext task, Iterator<Object> rows, InternalRow tick, long tickMs) {
        sent = Barrier.sentBy(task);
        received = Barrier.receivedBy(task);
        this.rows = rows;
        this.tick = tick;
        this.tickMs = tickMs;
        if (tickMs > 0) startReading();
    }

    /** The step that adds prefetching to a plan. */
    public static final class Step extends RowSteps.Step {
        private final String processor;
        private final int columns;
        private final long tickMs;
        private final boolean looksAhead;

        /** Creates the step; {@code looksAhead} is whether the processor reads waiting rows, or only needs ticks. */
        public Step(String processor, int columns, long tickMs, boolean looksAhead) {
            this.processor = processor;
            this.columns = columns;
            this.tickMs = tickMs;
            this.looksAhead = looksAhead;
        }

        @Override
        public boolean mayAddEmptyRows() {
            return tickMs > 0;
        }

        @Override
        public Iterator<Object> apply(Iterator<Object> rows) {
            TaskContext task = TaskContext.get();
            InternalRow tick = new GenericInternalRow(new Object[columns]);
            RowQueue rowQueue = looksAhead ? null : RowQueue.of(task);
            if (rowQueue != null) return new TimerTicks(rowQueue, rows, tick, tickMs);
            String name = name(processor, task);
            Prefetch prefetch = new Prefetch(task, rows, tick, tickMs);
            RUNNING.put(name, prefetch);
            Thread reader = ReaderThreads.start(task, prefetch::read);
            task.addTaskCompletionListener((TaskCompletionListener) context -> {
                RUNNING.remove(name);
                ReaderThreads.stop(reader);
            });
            return prefetch;
        }
    }

    private static String name(String processor, TaskContext task) {
        return processor + "/" + task.taskAttemptId();
    }

    /** The prefetch of a processor in this task; null if it has none. */
    public static Prefetch of(String processor, TaskContext task) {
        return RUNNING.get(name(processor, task));
    }

    /** The waiting rows, the next one first. */
    public List<InternalRow> waiting(int most) {
        List<InternalRow> waiting = new ArrayList<>();
        if (drained.size() < most) queue.drainTo(drained);
        for (Object row : drained) {
            if (!(row instanceof InternalRow) || waiting.size() == most) break;
            waiting.add((InternalRow) row);
        }
        return waiting;
    }

    /** The second thread: reads on request until it must pause. */
    private void read() {
        try {
            while (true) {
                requested.acquire();
                boolean more = true;
                while (!pausing && (more = rows.hasNext())) {
                    queue.put(nextRow());
                }
                queue.put(more ? PAUSE : END);
            }
        } catch (InterruptedException error) {
            // The task has ended; no thread is waiting.
        } catch (Throwable error) {
            failure = error;
            queue.clear();
            queue.add(END);
        }
    }

    private Object nextRow() {
        Object row = rows.next();
        sent.increment();
        return row;
    }

    private void startReading() {
        reading = true;
        pausing = false;
        streak = 0;
        requested.release();
    }

    @Override
    public boolean hasNext() {
        if (next == null) received.setIdle(true);
        while (next == null) {
            next = reading ? nextPrefetched() : nextDirect();
        }
        if (next == END && failure != null) ReaderThreads.rethrow(failure);
        if (next == END) return false;
        received.setIdle(false);
        return true;
    }

    /** Reads a row from Spark directly; a streak of immediate reads means that rows are waiting. */
    private Object nextDirect() {
        long start = System.nanoTime();
        Object row = rows.hasNext() ? nextRow() : END;
        streak = System.nanoTime() - start < IMMEDIATE_NANOS ? streak + 1 : 0;
        if (streak >= ROWS_TO_START && row != END) startReading();
        return row;
    }

    /** Takes a row that the second thread has read; null if that thread has just paused, or timers may not fire. */
    private Object nextPrefetched() {
        try {
            if (drained.isEmpty()) queue.drainTo(drained);
            Object row = drained.poll();
            streak = row == null ? streak + 1 : 0;
            if (row == null && tickMs > 0) {
                row = queue.poll(tickMs, TimeUnit.MILLISECONDS);
                if (row == null) return received.mayFireTimers() ? tick : null;
                streak = 0;
            }
            if (streak >= ROWS_TO_STOP) pausing = true;
            if (row == null) {
                row = queue.take();
            }
            if (row != PAUSE) return row;
            reading = false;
            streak = 0;
            return null;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new TaskKilledException();
        }
    }

    @Override
    public Object next() {
        Object row = next;
        next = null;
        if (row != tick) received.increment();
        return row;
    }
}
