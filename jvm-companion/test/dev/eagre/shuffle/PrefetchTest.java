package dev.eagre.shuffle;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.eagre.commit.Barrier;
import dev.eagre.commit.Deadline;
import dev.eagre.spark.Tasks;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

class PrefetchTest {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final long SEED = 99;

    private final UUID run = UUID.randomUUID();
    private final TaskContext task = Tasks.task(run);

    @AfterEach
    void endTask() {
        Tasks.complete(task);
    }

    /** Rows numbered from 0, created on demand. */
    private static class Numbered extends AbstractIterator<Object> {
        final int count;
        final AtomicInteger given = new AtomicInteger();

        Numbered(int count) {
            this.count = count;
        }

        @Override
        public boolean hasNext() {
            return given.get() < count;
        }

        @Override
        public Object next() {
            return row(given.getAndIncrement());
        }
    }

    /** Rows that a test adds one by one; a text is an error. */
    private static final class Fed extends AbstractIterator<Object> {
        final BlockingQueue<Object> queue = new LinkedBlockingQueue<>();
        private Object next;

        @Override
        public boolean hasNext() {
            try {
                if (next == null) next = queue.take();
            } catch (InterruptedException error) {
                throw new IllegalStateException("interrupted", error);
            }
            if (next instanceof String problem && !problem.equals("end")) throw new IllegalArgumentException(problem);
            return !next.equals("end");
        }

        @Override
        public Object next() {
            Object row = next;
            next = null;
            return row;
        }
    }

    private static InternalRow row(int number) {
        return new GenericInternalRow(new Object[] {number});
    }

    private static int number(Object row) {
        return ((InternalRow) row).getInt(0);
    }

    private Iterator<Object> over(Iterator<Object> rows, long tickMs) {
        return Tasks.in(task, () -> new Prefetch.Step("p", 1, tickMs, true).apply(rows));
    }

    @Test
    void rowsKeepTheirOrderWithAndWithoutPrefetching() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Iterator<Object> prefetch = over(new Numbered(20_000), 0);
            int next = 0;
            for (; prefetch.hasNext(); next++) assertEquals(next, number(prefetch.next()));
            assertEquals(20_000, next);
            assertFalse(prefetch.hasNext(), "the end stays the end");
        });
    }

    @Test
    void anEmptyInputEndsImmediately() {
        assertTimeoutPreemptively(LIMIT, () -> assertFalse(over(new Numbered(0), 0).hasNext()));
    }

    /** The reader starts and pauses many times while rows arrive in bursts or one by one. */
    @Test
    void nothingIsLostWhenBurstsAndPausesAlternate() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Fed fed = new Fed();
            Iterator<Object> prefetch = over(fed, 0);
            Random random = new Random(SEED);
            CompletableFuture.runAsync(() -> {
                for (int i = 0; i < 5_000; i++) {
                    fed.queue.add(row(i));
                    if (random.nextInt(200) == 0) java.util.concurrent.locks.LockSupport.parkNanos(2_000_000);
                }
                fed.queue.add("end");
            });
            int next = 0;
            for (; prefetch.hasNext(); next++) assertEquals(next, number(prefetch.next()), "seed " + SEED);
            assertEquals(5_000, next);
        });
    }

    @Test
    void waitingRowsAreVisibleWithoutTakingThem() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Numbered rows = new Numbered(10_000);
            Iterator<Object> prefetch = over(rows, 0);
            Prefetch seen = Prefetch.of("p", task);
            int next = 0;
            List<InternalRow> waiting = List.of();
            while (waiting.size() < 10 && prefetch.hasNext()) {
                assertEquals(next++, number(prefetch.next()));
                waiting = seen.waiting(10);
            }
            assertEquals(10, waiting.size(), "rows that arrive together are prefetched");
            for (InternalRow one : waiting) {
                assertTrue(prefetch.hasNext());
                Object taken = prefetch.next();
                assertSame(one, taken);
                assertEquals(next++, number(taken));
            }
        });
    }

    @Test
    void theNumberOfPrefetchedRowsIsLimited() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Numbered rows = new Numbered(1_000_000);
            Iterator<Object> prefetch = over(rows, 0);
            int taken = 0;
            for (; taken < 1_000; taken++) {
                assertTrue(prefetch.hasNext());
                prefetch.next();
            }
            Thread.sleep(100);
            int readAhead = rows.given.get() - taken;
            assertTrue(readAhead <= 2 * 256 + 1, readAhead + " rows wait");
        });
    }

    @Test
    void anErrorOfTheSourceReachesTheTask() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Fed fed = new Fed();
            Iterator<Object> prefetch = over(fed, 5);
            fed.queue.add("the broker is down");
            Exception error = assertThrows(IllegalArgumentException.class, () -> {
                while (prefetch.hasNext()) prefetch.next();
            });
            assertEquals("the broker is down", error.getMessage());
        });
    }

    @Test
    void ticksArriveWhileThereAreNoRows() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Fed fed = new Fed();
            Iterator<Object> prefetch = over(fed, 5);
            for (int i = 0; i < 3; i++) {
                assertTrue(prefetch.hasNext());
                assertTrue(((InternalRow) prefetch.next()).isNullAt(0), "a tick is a row of nulls");
            }
            fed.queue.add(row(7));
            fed.queue.add("end");
            List<Integer> numbers = new ArrayList<>();
            while (prefetch.hasNext()) {
                InternalRow row = (InternalRow) prefetch.next();
                if (!row.isNullAt(0)) numbers.add(row.getInt(0));
            }
            assertEquals(List.of(7), numbers);
        });
    }

    @Test
    void anInputWithTicksMayContainNulls() {
        assertTrue(new Prefetch.Step("p", 1, 5, true).mayAddEmptyRows());
        assertFalse(new Prefetch.Step("p", 1, 0, true).mayAddEmptyRows());
    }

    /** Rows that are in flight when the sources pause are still read; timers would change the state again. */
    @Test
    void ticksPauseWithTheSourcesAndRowsDoNot() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Fed fed = new Fed();
            Iterator<Object> prefetch = over(fed, 1);
            prefetch.hasNext();
            assertTrue(((InternalRow) prefetch.next()).isNullAt(0), "a tick");
            Barrier barrier = Barrier.of(run);
            barrier.pause(true);
            CompletableFuture<Object> next = CompletableFuture.supplyAsync(() -> {
                prefetch.hasNext();
                return prefetch.next();
            });
            assertEquals("done", barrier.whileIdle(Deadline.in(20_000), () -> "done"));
            Thread.sleep(20);
            assertFalse(next.isDone(), "no tick");
            fed.queue.add(row(7));
            assertEquals(7, number(next.get(10, SECONDS)));
            barrier.pause(false);
            prefetch.hasNext();
            assertTrue(((InternalRow) prefetch.next()).isNullAt(0), "a tick again");
            barrier.release(run);
        });
    }

    @Test
    void anInterruptedTaskIsKilledAndStaysInterrupted() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Iterator<Object> prefetch = over(new Fed(), 60_000);
            CompletableFuture<Object> ended = new CompletableFuture<>();
            Thread thread = new Thread(() -> {
                try {
                    ended.complete(prefetch.hasNext());
                } catch (TaskKilledException error) {
                    ended.complete(Thread.currentThread().isInterrupted());
                }
            });
            thread.start();
            thread.interrupt();
            assertEquals(true, ended.get());
        });
    }

    @Test
    void theReaderEndsWithTheTask() {
        assertTimeoutPreemptively(LIMIT, () -> {
            over(new Numbered(1_000_000), 5);
            assertNotNull(Prefetch.of("p", task));
            assertNull(Prefetch.of("another", task));
            Tasks.complete(task);
            assertNull(Prefetch.of("p", task));
            String name = "eagre-reader-" + task.taskAttemptId();
            assertTrue(Thread.getAllStackTraces().keySet().stream().noneMatch(one -> one.getName().equals(name)));
        });
    }
}
