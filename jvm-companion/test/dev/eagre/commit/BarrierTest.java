package dev.eagre.commit;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.eagre.spark.Tasks;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
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

    /** Nobody counts the rows that it held any more: they would look processed. */
    @Test
    void anEpochInWhichRowsWereLostHasNoMoreCommits() throws Exception {
        TaskContext failing = Tasks.task(run, 4);
        Barrier.sentBy(failing).increment();
        Barrier.receivedBy(failing);
        assertNull(barrier.whileIdle(in(0), () -> "too early"), "a row is in flight");
        assertFalse(barrier.hasEnded(4));
        Tasks.complete(failing);
        assertEquals("done", barrier.whileIdle(in(0), () -> "done"), "it looks processed");
        assertTrue(barrier.hasEnded(4));
        assertNull(barrier.next(4));
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
                    in(20_000).poll(() -> List.of().equals(barrier.next(0)) ? null : barrier.next(0)));
            assertEquals(false, read.isDone());
            barrier.pause(false);
            read.get(10, SECONDS);
            assertNull(barrier.next(0));
        });
    }

    private static Deadline in(long ms) {
        return Deadline.in(ms);
    }

    @Test
    void theWorkRunsWithoutTasks() throws Exception {
        assertEquals("done", barrier.whileIdle(in(0), () -> "done"));
    }

    @Test
    void theBarrierWaitsForAQueuedRow() {
        assertTimeoutPreemptively(LIMIT, () -> {
            RowCount sent = Barrier.sentBy(task);
            ReceivedCount received = Barrier.receivedBy(task);
            received.setIdle(true);
            sent.increment();
            assertNull(barrier.whileIdle(in(20), () -> "too early"));
            CompletableFuture.runAsync(received::increment, CompletableFuture.delayedExecutor(20, MILLISECONDS));
            assertEquals("done", barrier.whileIdle(in(20_000), () -> "done"));
        });
    }

    @Test
    void theBarrierWaitsForARowInFlight() throws Exception {
        RowCount sent = Barrier.sentBy(task);
        ReceivedCount received = Barrier.receivedBy(task);
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

    /** Its result would come after the last commit, and again in the next run. */
    @Test
    void aRowThatIsHeldWhenTheQueryStopsIsNotProcessed() {
        assertTimeoutPreemptively(LIMIT, () -> {
            barrier.pause(true);
            CompletableFuture<Void> read = CompletableFuture.runAsync(() -> Tasks.in(task, () -> {
                InFlightOffsets offsets = InFlightOffsets.begin((record, error) -> {});
                offsets.read(offsets.mine(), UTF8String.fromString("t"), 0, 5);
                return null;
            }));
            in(20_000).poll(() -> List.of().equals(barrier.next(0)) ? null : barrier.next(0));
            barrier.release(run);
            ExecutionException error = assertThrows(ExecutionException.class, read::get);
            assertEquals(TaskKilledException.class, error.getCause().getClass());
        });
    }

    @Test
    void timersAreHeldWhileTheSourcesArePaused() throws Exception {
        ReceivedCount received = Barrier.receivedBy(task);
        received.setIdle(true);
        assertTrue(received.mayFireTimers());
        barrier.pause(true);
        assertNull(barrier.whileIdle(in(5), () -> "too early"), "a timer fires");
        received.setIdle(true);
        assertFalse(received.mayFireTimers());
        assertEquals("done", barrier.whileIdle(in(5), () -> "done"));
        barrier.pause(false);
        assertTrue(received.mayFireTimers());
    }

    @Test
    void aWaitCanBeCancelled() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Deadline deadline = in(600_000);
            CompletableFuture.runAsync(deadline::cancel, CompletableFuture.delayedExecutor(20, MILLISECONDS));
            assertNull(deadline.poll(() -> null));
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
        assertEquals("found", in(10_000).poll(() -> looks.incrementAndGet() < 5 ? null : "found"));
        assertNull(in(-1).poll(() -> null));
    }

    private static InFlightOffsets source(TaskContext task) {
        return Tasks.in(task, () -> InFlightOffsets.begin((record, error) -> {}));
    }

    /** A slow function in one partition must not hold the others. */
    @Test
    void rowsInFlightInOneTaskHoldItsOwnSourceOnly() {
        TaskContext other = Tasks.task(run);
        InFlightOffsets slow = source(task);
        InFlightOffsets quick = source(other);
        RowCount sent = Barrier.sentBy(task);
        Barrier.sentBy(other);
        for (int row = 0; row < 16; row++) sent.increment();
        assertEquals(0, barrier.admit(slow));
        assertTrue(barrier.admit(quick) > 0);
        Tasks.complete(other);
    }

    @Test
    void rowsInFlightBehindAShuffleHoldAllSources() {
        TaskContext other = Tasks.task(run);
        TaskContext reader = Tasks.task(run);
        InFlightOffsets one = source(task);
        InFlightOffsets two = source(other);
        RowCount sent = Barrier.shuffledBy(task);
        ReceivedCount received = Barrier.receivedBy(reader);
        for (int row = 0; row < 16; row++) sent.increment();
        assertEquals(0, barrier.admit(one));
        assertEquals(0, barrier.admit(two));
        for (int row = 0; row < 16; row++) received.increment();
        assertTrue(barrier.admit(one) > 0);
        assertTrue(barrier.admit(two) > 0);
        Tasks.complete(reader);
        Tasks.complete(other);
    }

    /** The executors of a cluster tell each other what they have sent and received, through the driver. */
    @Test
    void rowsInFlightBetweenExecutorsHoldAllSources() {
        InFlightOffsets one = source(task);
        RowCount sent = Barrier.sentOverNetworkBy(task);
        barrier.setElsewhere(new Barrier.NetworkRows(0, 0, 1));
        for (int row = 0; row < 128; row++) sent.increment();
        assertEquals(0, barrier.admit(one));
        barrier.setElsewhere(new Barrier.NetworkRows(0, 100, 1));
        assertTrue(barrier.admit(one) > 0);
        barrier.setElsewhere(new Barrier.NetworkRows(1_000, 100, 1));
        assertEquals(0, barrier.admit(one), "another executor has sent as many");
        assertEquals(new Barrier.NetworkRows(128, 0, 1), barrier.networkRows());
        assertFalse(barrier.counts().sent() == barrier.counts().received());
    }

    /** A function may start after the first record is read: a thousand records more took it minutes. */
    @Test
    void theFirstRecordsOfATaskAreBounded() {
        assertTimeoutPreemptively(LIMIT, () -> {
            CompletableFuture<Void> reading = CompletableFuture.runAsync(() -> Tasks.in(task, () -> {
                InFlightOffsets offsets = InFlightOffsets.beginRealTime();
                InFlightOffsets.begin((record, error) -> {});
                offsets.read(offsets.mine(), UTF8String.fromString("t"), 0, 0);
                RowCount sent = Barrier.sentBy(task);
                for (int offset = 1; offset <= 100; offset++) {
                    sent.increment();
                    offsets.read(offsets.mine(), UTF8String.fromString("t"), 0, offset);
                }
                return null;
            }));
            List<RecordPosition> held = in(20_000).poll(() -> List.of().equals(barrier.next(0)) ? null : barrier.next(0));
            assertTrue(held.get(0).offset() <= 16, held.toString());
            barrier.pause(true);
            barrier.release(run);
            assertThrows(ExecutionException.class, reading::get);
        });
    }
}
