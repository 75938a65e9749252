package dev.eagre.shuffle;

import dev.eagre.commit.Barrier;
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
 * The rows on their way to a processor. While rows come one by one, the task's own thread takes each
 * from Spark: nothing is quicker. When they begin to wait, a second thread reads ahead, so that the
 * processor sees which ones stand behind the row it is given and can ask Python about all of them at
 * once; when none wait any more, it stops. Where timers tick, the second thread reads all the time,
 * and while no row comes an empty one goes down every few milliseconds: Spark looks at timers only
 * when a row passes.
 */
public final class Prefetch extends AbstractIterator<Object> {
    private static final int ROOM = 256;
    private static final int ROWS_TO_BEGIN = 16;
    private static final int ROWS_TO_END = 64;
    private static final long AT_ONCE_NANOS = 20_000;
    private static final Object END = new Object();
    private static final Object PAUSE = new Object();
    private static final Map<String, Prefetch> RUNNING = new ConcurrentHashMap<>();

    private final BlockingQueue<Object> queue = new ArrayBlockingQueue<>(ROOM);

    /** Taken from the queue in one go: were each row taken by itself, each would wake the second thread. */
    private final Queue<Object> mine = new ArrayDeque<>(ROOM);

    private final Semaphore wanted = new Semaphore(0);
    private final Iterator<Object> rows;
    private final InternalRow tick;
    private final long tickMs;
    private final Barrier.Count leaving;
    private final Barrier.Arrivals arriving;
    private Object next;
    private boolean reading;
    private int inRow;
    private volatile boolean pausing;
    private volatile Throwable failure;

    private Prefetch(TaskContext task, Iterator<Object> rows, InternalRow tick, long tickMs) {
        leaving = Barrier.leaving(task);
        arriving = Barrier.arriving(task);
        this.rows = rows;
        this.tick = tick;
        this.tickMs = tickMs;
        if (tickMs > 0) begin();
    }

    /** The step of the plan. */
    public static final class Step extends RowSteps.Step {
        private final String processor;
        private final int columns;
        private final long tickMs;
        private final boolean looks;

        /** Whether the processor looks at what waits, or only needs ticks. */
        public Step(String processor, int columns, long tickMs, boolean looks) {
            this.processor = processor;
            this.columns = columns;
            this.tickMs = tickMs;
            this.looks = looks;
        }

        @Override
        public boolean empties() {
            return tickMs > 0;
        }

        @Override
        public Iterator<Object> apply(Iterator<Object> rows) {
            TaskContext task = TaskContext.get();
            InternalRow tick = new GenericInternalRow(new Object[columns]);
            RowQueue lane = looks ? null : RowQueue.of(task);
            if (lane != null) {
                Barrier.stops(task, lane::halt);
                return new TimerTicks(lane, rows, tick, tickMs);
            }
            String name = name(processor, task);
            Prefetch ahead = new Prefetch(task, rows, tick, tickMs);
            RUNNING.put(name, ahead);
            if (tickMs > 0) Barrier.stops(task, ahead.queue::put);
            Thread reader = ReaderThreads.start(task, ahead::read);
            task.addTaskCompletionListener((TaskCompletionListener) context -> {
                RUNNING.remove(name);
                ReaderThreads.stop(reader);
            });
            return ahead;
        }
    }

    private static String name(String processor, TaskContext task) {
        return processor + "/" + task.taskAttemptId();
    }

    /** Gives what stands before a processor in this task; null if nothing does. */
    public static Prefetch of(String processor, TaskContext task) {
        return RUNNING.get(name(processor, task));
    }

    /** The rows that wait, the next one first. */
    public List<InternalRow> waiting(int most) {
        List<InternalRow> waiting = new ArrayList<>();
        if (mine.size() < most) queue.drainTo(mine);
        for (Object row : mine) {
            if (!(row instanceof InternalRow) || waiting.size() == most) break;
            waiting.add((InternalRow) row);
        }
        return waiting;
    }

    /** The second thread: reads when it is wanted, until it is told to pause. */
    private void read() {
        try {
            while (true) {
                wanted.acquire();
                boolean more = true;
                while (!pausing && (more = rows.hasNext())) {
                    queue.put(one());
                }
                queue.put(more ? PAUSE : END);
            }
        } catch (InterruptedException error) {
            // The task is over; nobody waits.
        } catch (Throwable error) {
            failure = error;
            queue.clear();
            queue.add(END);
        }
    }

    private Object one() {
        Object row = rows.next();
        leaving.one();
        return row;
    }

    private void begin() {
        reading = true;
        pausing = false;
        inRow = 0;
        wanted.release();
    }

    @Override
    public boolean hasNext() {
        if (next == null) arriving.waits(true);
        while (next == null) {
            next = reading ? awaited() : taken();
        }
        if (next == END && failure != null) ReaderThreads.rethrow(failure);
        if (next == END) return false;
        arriving.waits(false);
        return true;
    }

    /** Takes a row from Spark itself; many at once in a row mean that they wait. */
    private Object taken() {
        long start = System.nanoTime();
        Object row = rows.hasNext() ? one() : END;
        inRow = System.nanoTime() - start < AT_ONCE_NANOS ? inRow + 1 : 0;
        if (inRow >= ROWS_TO_BEGIN && row != END) begin();
        return row;
    }

    /** Takes a row that the second thread has read; null when it has just paused. */
    private Object awaited() {
        try {
            if (mine.isEmpty()) queue.drainTo(mine);
            Object row = mine.poll();
            inRow = row == null ? inRow + 1 : 0;
            if (row == null && tickMs > 0) {
                row = queue.poll(tickMs, TimeUnit.MILLISECONDS);
                if (row == null) return tick;
                inRow = 0;
            }
            if (row instanceof Barrier.Halt halt) {
                halt.pass();
                return null;
            }
            if (inRow >= ROWS_TO_END) pausing = true;
            if (row == null) row = queue.take();
            if (row != PAUSE) return row;
            reading = false;
            inRow = 0;
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
        if (row != tick) arriving.one();
        return row;
    }
}
