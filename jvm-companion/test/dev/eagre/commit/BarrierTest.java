package dev.eagre.commit;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import dev.eagre.spark.Tasks;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.TaskContext;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class BarrierTest {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    private final UUID run = UUID.randomUUID();
    private final Barrier barrier = Barrier.of(run);
    private final TaskContext task = Tasks.task(run);

    @AfterEach
    void endTask() {
        Tasks.complete(task);
        barrier.release(run);
    }

    @Test
    void rowsOfAnotherQueryAreNotWaitedFor() throws Exception {
        UUID other = UUID.randomUUID();
        TaskContext busy = Tasks.task(other);
        Barrier.sentBy(busy).increment();
        Barrier.onFlush(busy, () -> {
            throw new IllegalStateException("another query was flushed");
        });
        assertEquals("done", barrier.whileIdle(in(0), () -> "done"));
        Barrier otherBarrier = Barrier.of(other);
        assertNull(otherBarrier.whileIdle(in(5), () -> "too early"));
        otherBarrier.release(other);
        Tasks.complete(busy);
    }

    @Test
    void aPauseHoldsTheSourcesOfOneQueryOnly() {
        UUID other = UUID.randomUUID();
        Barrier otherBarrier = Barrier.of(other);
        TaskContext unpaused = Tasks.task(other);
        barrier.pause(true);
        Tasks.in(unpaused, () -> {
            InFlightOffsets offsets = InFlightOffsets.begin((record, error) -> {});
            offsets.read(offsets.mine(), UTF8String.fromString("t"), 0, 7);
            return null;
        });
        assertEquals(List.of(), barrier.between(0, in(0)));
        assertNull(otherBarrier.between(0, in(0)), "a row of the other query is in flight");
        Tasks.complete(unpaused);
        assertEquals(List.of(), otherBarrier.between(0, in(0)), "the task belongs to no epoch");
        otherBarrier.release(other);
    }

    @Test
    void aReaderThatWaitsHasProcessedItsRows() {
        Tasks.in(task, () -> {
            InFlightOffsets offsets = InFlightOffsets.begin((record, error) -> {});
            assertEquals(List.of(), barrier.next(0));
            offsets.read(offsets.mine(), UTF8String.fromString("t"), 3, 41);
            assertNull(barrier.next(0));
            offsets.setReading(true);
            assertEquals(List.of(new RecordPosition("t", 3, 42)), barrier.next(0));
            offsets.setReading(false);
            assertNull(barrier.next(0));
            return null;
        });
    }

    /** A position inside a row would repeat its first results after a crash. */
    @Test
    void aBarrierPassesBetweenTwoRows() {
        assertTimeoutPreemptively(LIMIT, () -> {
            InFlightOffsets offsets = Tasks.in(task, () -> {
                InFlightOffsets mine = InFlightOffsets.begin((record, error) -> {});
                mine.read(mine.mine(), UTF8String.fromString("t"), 0, 10);
                return mine;
            });
            assertNull(barrier.between(0, in(20)), "the row is in flight");
            CompletableFuture<List<RecordPosition>> passed =
                    CompletableFuture.supplyAsync(() -> barrier.between(0, in(20_000)));
            Thread.sleep(20);
            assertEquals(false, passed.isDone());
            for (int offset = 11; !passed.isDone(); offset++) {
                offsets.setReading(true);
                offsets.setReading(false);
                int read = offset;
                Tasks.in(task, () -> {
                    offsets.read(offsets.mine(), UTF8String.fromString("t"), 0, read);
                    return null;
                });
                if (offset == 11) Thread.sleep(5);
            }
            assertEquals(List.of(new RecordPosition("t", 0, 11)), passed.get(), "the reader never waited");
        });
    }

    /** Its position is unknown then: a commit would go back to the start of the epoch. */
    @Test
    void anEpochWithAnEndedSourceHasNoMoreCommits() {
        TaskContext ended = Tasks.task(run, 4);
        Tasks.in(ended, () -> InFlightOffsets.begin((record, error) -> {}));
        Tasks.complete(ended);
        assertNull(barrier.between(4, in(0)));
        assertNull(barrier.next(4));
        assertEquals(List.of(), barrier.between(5, in(0)), "the next epoch");
    }

    @Test
    void aPausedReaderHoldsTheRowThatItGot() {
        assertTimeoutPreemptively(LIMIT, () -> {
            barrier.pause(true);
            CompletableFuture<Void> read = CompletableFuture.runAsync(() -> Tasks.in(task, () -> {
                InFlightOffsets offsets = InFlightOffsets.begin((record, error) -> {});
                offsets.read(offsets.mine(), UTF8String.fromString("t"), 0, 5);
                return null;
            }));
            assertEquals(List.of(new RecordPosition("t", 0, 5)),
                    Barrier.poll(in(20_000), () -> List.of().equals(barrier.next(0)) ? null : barrier.next(0)));
            assertEquals(false, read.isDone());
            barrier.pause(false);
            read.get(10, SECONDS);
            assertNull(barrier.next(0));
        });
    }

    private static long in(long ms) {
        return System.nanoTime() + MILLISECONDS.toNanos(ms);
    }

    @Test
    void theWorkRunsWithoutTasks() throws Exception {
        assertEquals("done", barrier.whileIdle(in(0), () -> "done"));
    }

    @Test
    void theBarrierWaitsForAQueuedRow() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Barrier.RowCount sent = Barrier.sentBy(task);
            Barrier.ReceivedCount received = Barrier.receivedBy(task);
            received.setIdle(true);
            sent.increment();
            assertNull(barrier.whileIdle(in(20), () -> "too early"));
            CompletableFuture.runAsync(received::increment, CompletableFuture.delayedExecutor(20, MILLISECONDS));
            assertEquals("done", barrier.whileIdle(in(20_000), () -> "done"));
        });
    }

    @Test
    void theBarrierWaitsForARowInFlight() throws Exception {
        Barrier.RowCount sent = Barrier.sentBy(task);
        Barrier.ReceivedCount received = Barrier.receivedBy(task);
        sent.increment();
        received.increment();
        received.setIdle(false);
        assertNull(barrier.whileIdle(in(20), () -> "too early"));
        received.setIdle(true);
        assertEquals("done", barrier.whileIdle(in(20), () -> "done"));
    }

    @Test
    void endedTasksDoNotCount() throws Exception {
        Barrier.sentBy(task).increment();
        Barrier.receivedBy(task);
        assertNull(barrier.whileIdle(in(5), () -> "too early"));
        Tasks.complete(task);
        assertEquals("done", barrier.whileIdle(in(5), () -> "done"));
    }

    @Test
    void tasksPauseDuringTheWorkAndContinueAfterIt() {
        assertTimeoutPreemptively(LIMIT, () -> {
            BlockingQueue<Barrier.PausePoint> queue = new LinkedBlockingQueue<>();
            List<String> events = Collections.synchronizedList(new ArrayList<>());
            Barrier.onPause(task, queue::put);
            CompletableFuture<Void> stopped = CompletableFuture.runAsync(() -> {
                try {
                    queue.take().await();
                    events.add("task");
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            });
            barrier.whileIdle(in(20_000), () -> {
                Thread.sleep(20);
                return events.add("work");
            });
            stopped.get(10, SECONDS);
            assertEquals(List.of("work", "task"), events);
        });
    }

    @Test
    void theBarrierGivesUpOnATaskThatDoesNotPause() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Barrier.onPause(task, point -> {});
            assertNull(barrier.whileIdle(in(20), () -> "too early"));
        });
    }

    @Test
    void tasksContinueWhenTheWorkFails() {
        assertTimeoutPreemptively(LIMIT, () -> {
            CompletableFuture<Void> passed = new CompletableFuture<>();
            Barrier.onPause(task, point -> CompletableFuture.runAsync(() -> {
                try {
                    point.await();
                    passed.complete(null);
                } catch (InterruptedException error) {
                    passed.completeExceptionally(error);
                }
            }));
            assertThrows(IOException.class, () -> barrier.whileIdle(in(20_000), () -> {
                throw new IOException("a full disk");
            }));
            passed.get(10, SECONDS);
        });
    }

    @Test
    void bufferedResultsAreFlushedBeforeTheWork() throws Exception {
        List<String> events = new ArrayList<>();
        Barrier.onFlush(task, () -> events.add("flush"));
        barrier.whileIdle(in(0), () -> events.add("work"));
        assertEquals(List.of("flush", "work"), events);
    }

    @Test
    void aConditionIsPolledUntilItHolds() {
        AtomicInteger looks = new AtomicInteger();
        assertEquals("found", Barrier.poll(in(10_000), () -> looks.incrementAndGet() < 5 ? null : "found"));
        assertNull(Barrier.poll(in(-1), () -> null));
    }
}
