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
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.TaskContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class BarrierTest {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    private final TaskContext task = Tasks.task();

    @AfterEach
    void endTask() {
        Tasks.complete(task);
    }

    private static long in(long ms) {
        return System.nanoTime() + MILLISECONDS.toNanos(ms);
    }

    @Test
    void theWorkRunsWithoutTasks() throws Exception {
        assertEquals("done", Barrier.whileIdle(in(0), () -> "done"));
    }

    @Test
    void theBarrierWaitsForAQueuedRow() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Barrier.RowCount sent = Barrier.sentBy(task);
            Barrier.ReceivedCount received = Barrier.receivedBy(task);
            received.setIdle(true);
            sent.increment();
            assertNull(Barrier.whileIdle(in(20), () -> "too early"));
            CompletableFuture.runAsync(received::increment, CompletableFuture.delayedExecutor(20, MILLISECONDS));
            assertEquals("done", Barrier.whileIdle(in(20_000), () -> "done"));
        });
    }

    @Test
    void theBarrierWaitsForARowInFlight() throws Exception {
        Barrier.RowCount sent = Barrier.sentBy(task);
        Barrier.ReceivedCount received = Barrier.receivedBy(task);
        sent.increment();
        received.increment();
        received.setIdle(false);
        assertNull(Barrier.whileIdle(in(20), () -> "too early"));
        received.setIdle(true);
        assertEquals("done", Barrier.whileIdle(in(20), () -> "done"));
    }

    @Test
    void endedTasksDoNotCount() throws Exception {
        Barrier.sentBy(task).increment();
        Barrier.receivedBy(task);
        assertNull(Barrier.whileIdle(in(5), () -> "too early"));
        Tasks.complete(task);
        assertEquals("done", Barrier.whileIdle(in(5), () -> "done"));
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
            Barrier.whileIdle(in(20_000), () -> {
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
            assertNull(Barrier.whileIdle(in(20), () -> "too early"));
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
            assertThrows(IOException.class, () -> Barrier.whileIdle(in(20_000), () -> {
                throw new IOException("a full disk");
            }));
            passed.get(10, SECONDS);
        });
    }

    @Test
    void bufferedResultsAreFlushedBeforeTheWork() throws Exception {
        List<String> events = new ArrayList<>();
        Barrier.onFlush(task, () -> events.add("flush"));
        Barrier.whileIdle(in(0), () -> events.add("work"));
        assertEquals(List.of("flush", "work"), events);
    }

    @Test
    void aConditionIsPolledUntilItHolds() {
        AtomicInteger looks = new AtomicInteger();
        assertEquals("found", Barrier.poll(in(10_000), () -> looks.incrementAndGet() < 5 ? null : "found"));
        assertNull(Barrier.poll(in(-1), () -> null));
    }
}
