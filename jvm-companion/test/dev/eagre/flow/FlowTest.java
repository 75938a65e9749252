package dev.eagre.flow;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import dev.eagre.Tasks;
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

class FlowTest {
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
    void workIsDoneWhereNoTaskRuns() throws Exception {
        assertEquals("done", Flow.standing(in(0), () -> "done"));
    }

    @Test
    void aRowOnItsWayIsWaitedFor() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Flow.Count left = Flow.leaving(task);
            Flow.Arrivals arrived = Flow.arriving(task);
            arrived.waits(true);
            left.one();
            assertNull(Flow.standing(in(20), () -> "too early"));
            CompletableFuture.runAsync(arrived::one, CompletableFuture.delayedExecutor(20, MILLISECONDS));
            assertEquals("done", Flow.standing(in(20_000), () -> "done"));
        });
    }

    @Test
    void aRowInWorkIsWaitedFor() throws Exception {
        Flow.Count left = Flow.leaving(task);
        Flow.Arrivals arrived = Flow.arriving(task);
        left.one();
        arrived.one();
        arrived.waits(false);
        assertNull(Flow.standing(in(20), () -> "too early"));
        arrived.waits(true);
        assertEquals("done", Flow.standing(in(20), () -> "done"));
    }

    @Test
    void tasksThatEndedCountNoMore() throws Exception {
        Flow.leaving(task).one();
        Flow.arriving(task);
        assertNull(Flow.standing(in(5), () -> "too early"));
        Tasks.complete(task);
        assertEquals("done", Flow.standing(in(5), () -> "done"));
    }

    @Test
    void tasksPauseDuringTheWorkAndGoOnAfterIt() {
        assertTimeoutPreemptively(LIMIT, () -> {
            BlockingQueue<Flow.Halt> queue = new LinkedBlockingQueue<>();
            List<String> events = Collections.synchronizedList(new ArrayList<>());
            Flow.stops(task, queue::put);
            CompletableFuture<Void> stopped = CompletableFuture.runAsync(() -> {
                try {
                    queue.take().pass();
                    events.add("task");
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            });
            Flow.standing(in(20_000), () -> {
                Thread.sleep(20);
                return events.add("work");
            });
            stopped.get(10, SECONDS);
            assertEquals(List.of("work", "task"), events);
        });
    }

    @Test
    void aTaskThatDoesNotReachItsPauseIsNotWaitedForForever() {
        assertTimeoutPreemptively(LIMIT, () -> {
            Flow.stops(task, halt -> {});
            assertNull(Flow.standing(in(20), () -> "too early"));
        });
    }

    @Test
    void tasksGoOnWhenTheWorkFails() {
        assertTimeoutPreemptively(LIMIT, () -> {
            CompletableFuture<Void> passed = new CompletableFuture<>();
            Flow.stops(task, halt -> CompletableFuture.runAsync(() -> {
                try {
                    halt.pass();
                    passed.complete(null);
                } catch (InterruptedException error) {
                    passed.completeExceptionally(error);
                }
            }));
            assertThrows(IOException.class, () -> Flow.standing(in(20_000), () -> {
                throw new IOException("a full disk");
            }));
            passed.get(10, SECONDS);
        });
    }

    @Test
    void whatIsHeldBackIsWrittenBeforeTheWork() throws Exception {
        List<String> events = new ArrayList<>();
        Flow.holdsBack(task, () -> events.add("flush"));
        Flow.standing(in(0), () -> events.add("work"));
        assertEquals(List.of("flush", "work"), events);
    }

    @Test
    void somethingIsLookedForUntilItIsThere() {
        AtomicInteger looks = new AtomicInteger();
        assertEquals("found", Flow.awaited(in(10_000), () -> looks.incrementAndGet() < 5 ? null : "found"));
        assertNull(Flow.awaited(in(-1), () -> null));
    }
}
