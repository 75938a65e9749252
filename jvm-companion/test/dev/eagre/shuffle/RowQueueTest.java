package dev.eagre.shuffle;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
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
import java.util.NoSuchElementException;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import scala.Product2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

class RowQueueTest {
    /** A queue has room for 256 KiB. */
    private static final int ROW_BYTES = 1 << 15;

    private static final int ROOM_ROWS = 8;

    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final long SEED = 42;

    private final UUID run = UUID.randomUUID();
    private final TaskContext writer = Tasks.task(run);
    private final TaskContext reader = Tasks.task(run);

    @AfterEach
    void endTasks() {
        Tasks.complete(reader);
        Tasks.complete(writer);
    }

    private static List<Object> drained(Iterator<Product2<Object, Object>> rows) {
        List<Object> found = new ArrayList<>();
        while (rows.hasNext()) found.add(rows.next()._2());
        return found;
    }

    private static UnsafeRow unsafe(int bytes, byte fill) {
        byte[] memory = new byte[bytes];
        java.util.Arrays.fill(memory, fill);
        UnsafeRow row = new UnsafeRow(1);
        row.pointTo(memory, bytes);
        return row;
    }

    @Test
    void rowsKeepTheOrderOfTheirWriterAndEndWithIt() {
        RowQueue queue = new RowQueue(1);
        for (int i = 0; i < 10; i++) queue.put(i, writer);
        queue.end();
        List<Object> expected = new ArrayList<>();
        for (int i = 0; i < 10; i++) expected.add(i);
        assertEquals(expected, drained(queue.rows(reader)));
    }

    @Test
    void anEmptyQueueEndsWhenItsWritersEnd() {
        RowQueue queue = new RowQueue(2);
        Iterator<Product2<Object, Object>> rows = queue.rows(reader);
        queue.end();
        assertFalse(queue.awaitNext(1), "one writer still runs");
        queue.end();
        assertTrue(queue.awaitNext(1));
        assertFalse(rows.hasNext());
        assertThrows(NoSuchElementException.class, rows::next);
    }

    /** A writer passes each row in the same memory. */
    @Test
    void rowsAreCopied() {
        RowQueue queue = new RowQueue(1);
        GenericInternalRow row = new GenericInternalRow(new Object[] {1});
        queue.put(row, writer);
        row.update(0, 2);
        queue.put(row, writer);
        queue.end();
        List<Object> found = drained(queue.rows(reader));
        assertEquals(List.of(1, 2), found.stream().map(one -> ((GenericInternalRow) one).get(0, null)).toList());
    }

    @Test
    void aFullQueueBlocksItsWriterUntilARowIsTaken() {
        assertTimeoutPreemptively(LIMIT, () -> {
            RowQueue queue = new RowQueue(1);
            AtomicInteger put = new AtomicInteger();
            CompletableFuture<Void> writing = CompletableFuture.runAsync(() -> {
                for (int i = 0; i <= ROOM_ROWS; i++) {
                    queue.put(unsafe(ROW_BYTES, (byte) i), writer);
                    put.incrementAndGet();
                }
                queue.end();
            });
            while (put.get() < ROOM_ROWS) Thread.onSpinWait();
            assertThrows(java.util.concurrent.TimeoutException.class,
                    () -> writing.get(100, java.util.concurrent.TimeUnit.MILLISECONDS));
            assertEquals(ROOM_ROWS, put.get());
            Iterator<Product2<Object, Object>> rows = queue.rows(reader);
            assertEquals(unsafe(ROW_BYTES, (byte) 0), rows.next()._2());
            writing.get(10, SECONDS);
            assertEquals(ROOM_ROWS, drained(rows).size());
        });
    }

    /** A row that is larger than a queue would never fit: it takes all of its room. */
    @Test
    void aRowLargerThanAQueuePassesAlone() {
        assertTimeoutPreemptively(LIMIT, () -> {
            RowQueue queue = new RowQueue(1);
            queue.put(unsafe(1 << 20, (byte) 1), writer);
            CompletableFuture<Void> writing = CompletableFuture.runAsync(() -> {
                queue.put(unsafe(16, (byte) 2), writer);
                queue.end();
            });
            assertThrows(java.util.concurrent.TimeoutException.class,
                    () -> writing.get(100, java.util.concurrent.TimeUnit.MILLISECONDS));
            List<Object> found = drained(queue.rows(reader));
            writing.get(10, SECONDS);
            assertEquals(List.of(1 << 20, 16), found.stream().map(r -> ((UnsafeRow) r).getSizeInBytes()).toList());
        });
    }

    @Test
    void eachOfManyWritersKeepsItsOrder() {
        assertTimeoutPreemptively(LIMIT, () -> {
            int writers = 8;
            int each = 5_000;
            RowQueue queue = new RowQueue(writers);
            List<CompletableFuture<Void>> writing = new ArrayList<>();
            for (int w = 0; w < writers; w++) {
                int mine = w;
                writing.add(CompletableFuture.runAsync(() -> {
                    Random random = new Random(SEED + mine);
                    for (int i = 0; i < each; i++) {
                        if (random.nextInt(500) == 0) Thread.yield();
                        queue.put(List.of(mine, i), writer);
                    }
                    queue.end();
                }, command -> new Thread(command).start()));
            }
            int[] next = new int[writers];
            Iterator<Product2<Object, Object>> rows = queue.rows(reader);
            int count = 0;
            for (; rows.hasNext(); count++) {
                List<?> row = (List<?>) rows.next()._2();
                int from = (Integer) row.get(0);
                assertEquals(next[from]++, row.get(1), "writer " + from);
            }
            assertEquals(writers * each, count);
            for (CompletableFuture<Void> one : writing) one.get(10, SECONDS);
        });
    }

    @Test
    void aBlockedWriterEndsWithItsTask() {
        assertTimeoutPreemptively(LIMIT, () -> {
            RowQueue queue = new RowQueue(1);
            for (int i = 0; i < ROOM_ROWS; i++) queue.put(unsafe(ROW_BYTES, (byte) i), writer);
            CompletableFuture<Void> writing = CompletableFuture.runAsync(() -> queue.put("one more", writer));
            writer.markInterrupted("stopped");
            CompletionException error = assertThrows(CompletionException.class, writing::join);
            assertEquals(TaskKilledException.class, error.getCause().getClass());
        });
    }

    @Test
    void aBlockedWriterThatIsInterruptedIsKilled() {
        assertTimeoutPreemptively(LIMIT, () -> {
            RowQueue queue = new RowQueue(1);
            for (int i = 0; i < ROOM_ROWS; i++) queue.put(unsafe(ROW_BYTES, (byte) i), writer);
            CompletableFuture<Throwable> thrown = new CompletableFuture<>();
            Thread thread = new Thread(() -> {
                try {
                    queue.put("one more", writer);
                    thrown.complete(null);
                } catch (Throwable error) {
                    thrown.complete(error);
                }
            });
            thread.start();
            thread.interrupt();
            assertEquals(TaskKilledException.class, thrown.get().getClass());
        });
    }

    @Test
    void aWaitingReaderEndsWithItsTask() {
        assertTimeoutPreemptively(LIMIT, () -> {
            RowQueue queue = new RowQueue(1);
            Iterator<Product2<Object, Object>> rows = queue.rows(reader);
            CompletableFuture<Boolean> reading = CompletableFuture.supplyAsync(rows::hasNext);
            Tasks.complete(reader);
            CompletionException error = assertThrows(CompletionException.class, reading::join);
            assertEquals(TaskKilledException.class, error.getCause().getClass());
        });
    }

    @Test
    void aQueueIsRegisteredWhileItsReaderRuns() {
        RowQueue queue = new RowQueue(1);
        assertNull(RowQueue.of(reader));
        queue.rows(reader);
        assertSame(queue, RowQueue.of(reader));
        Tasks.complete(reader);
        assertNull(RowQueue.of(reader));
    }

    @Test
    void waitingRowsCanBeDetectedWithoutTakingThem() {
        RowQueue queue = new RowQueue(1);
        Iterator<Product2<Object, Object>> rows = queue.rows(reader);
        assertFalse(queue.awaitNext(1));
        queue.put("a", writer);
        assertTrue(queue.awaitNext(1));
        assertTrue(queue.awaitNext(1), "asking again takes nothing");
        assertEquals("a", rows.next()._2());
        assertFalse(queue.awaitNext(1));
    }

    /** Rows that are in flight when the sources pause are still read; timers would change the state again. */
    @Test
    void ticksPauseWithTheSourcesAndRowsDoNot() {
        assertTimeoutPreemptively(LIMIT, () -> {
            RowQueue queue = new RowQueue(1);
            Iterator<Object> rows = Tasks.in(reader, () -> {
                Iterator<Product2<Object, Object>> pairs = queue.rows(reader);
                Iterator<Object> unpaired = new AbstractIterator<>() {
                    @Override
                    public boolean hasNext() {
                        return pairs.hasNext();
                    }

                    @Override
                    public Object next() {
                        return pairs.next()._2();
                    }
                };
                return new Prefetch.Step("p", 1, 1, false).apply(unpaired);
            });
            assertTrue(rows.hasNext());
            assertTrue(((InternalRow) rows.next()).isNullAt(0), "a tick");
            Barrier barrier = Barrier.of(run);
            barrier.pause(true);
            CompletableFuture<Object> next = CompletableFuture.supplyAsync(() -> {
                rows.hasNext();
                return rows.next();
            });
            assertEquals("done", barrier.whileIdle(Deadline.in(20_000), () -> "done"));
            Thread.sleep(20);
            assertFalse(next.isDone(), "no tick");
            queue.put(unsafe(16, (byte) 7), writer);
            assertEquals(unsafe(16, (byte) 7), next.get(10, SECONDS));
            barrier.pause(false);
            assertTrue(rows.hasNext());
            assertTrue(((InternalRow) rows.next()).isNullAt(0), "a tick again");
            barrier.release(run);
        });
    }
}
