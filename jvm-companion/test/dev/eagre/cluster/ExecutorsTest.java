package dev.eagre.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.commit.Deadline;
import dev.eagre.commit.MidEpochCommits.StateVersion;
import dev.eagre.commit.RecordPosition;
import dev.eagre.commit.RowsInFlight;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.cluster.ExecutorInfo;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The driver's side of commits on a cluster, with executors that give prepared answers. */
class ExecutorsTest {
    private static final long SOON_MS = 20_000;

    private final Executors executors = new Executors();
    private final List<Executor> all = new ArrayList<>();

    /** An executor that answers each step with the next of its results; the last one is repeated. */
    private final class Executor {
        final Map<String, Deque<Object>> results = new ConcurrentHashMap<>();
        final List<String> steps = Collections.synchronizedList(new ArrayList<>());
        private final String id;
        private final Thread thread;
        private volatile boolean ended;
        private long accepted;

        Executor(String id) throws Exception {
            this.id = id;
            ArrayNode first = step(Executors.JSON.createArrayNode());
            thread = new Thread(() -> serve(first));
            thread.start();
            all.add(this);
        }

        Executor answers(String step, Object... answers) {
            results.put(step, new ArrayDeque<>(List.of(answers)));
            return this;
        }

        private void serve(ArrayNode first) {
            try {
                ArrayNode answers = first;
                while (!ended) {
                    answers = step(answers);
                    Thread.sleep(1);
                }
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        private ArrayNode step(ArrayNode answers) throws Exception {
            ObjectNode message = Executors.JSON.createObjectNode().put("executor", id);
            message.set("answers", answers);
            JsonNode reply = Executors.JSON.readTree(executors.receive(message.toString()));
            ArrayNode next = Executors.JSON.createArrayNode();
            for (JsonNode command : reply.path("commands")) {
                if (command.get("id").asLong() <= accepted) continue;
                accepted = command.get("id").asLong();
                String step = command.get("do").asText();
                steps.add(step);
                Deque<Object> prepared = results.get(step);
                Object result = prepared == null ? true : prepared.size() > 1 ? prepared.poll() : prepared.peek();
                next.addObject().put("id", command.path("id").asLong()).set("result", Executors.JSON.valueToTree(result));
            }
            return next;
        }

        void end() throws InterruptedException {
            ended = true;
            thread.join();
        }
    }

    @AfterEach
    void endExecutors() throws Exception {
        for (Executor executor : all) executor.end();
    }

    private ExecutorParticipants participants() throws Exception {
        return new ExecutorParticipants(UUID.randomUUID(), executors, "client", "");
    }

    private static RowsInFlight.Counts counts(long received, boolean idle, long sent) {
        return new RowsInFlight.Counts(received, idle, sent);
    }

    private StateVersion write(ExecutorParticipants run, long ms) throws Exception {
        return run.writeState(List.of(), Deadline.in(ms));
    }

    @Test
    void rowsThatCrossBetweenTwoQuestionsAreInFlight() throws Exception {
        // The second executor was asked before the first had sent it a row: their counts agree by accident.
        new Executor("0").answers("counts", counts(4, true, 5), counts(4, true, 6)).answers("stores", 0).answers("write", List.of());
        new Executor("1").answers("counts", counts(1, true, 0)).answers("stores", 0).answers("write", List.of());
        ExecutorParticipants run = participants();
        run.pause(true);
        assertNull(write(run, 0));
    }

    @Test
    void aTaskThatIsBusyIsWaitedFor() throws Exception {
        Executor busy = new Executor("0").answers("stores", 0).answers("write", List.of());
        busy.answers("counts", counts(5, false, 5), counts(5, false, 5), counts(5, true, 5));
        ExecutorParticipants run = participants();
        run.pause(true);
        assertNull(write(run, 0));
        assertEquals("a task is processing a row", run.waitsFor());
        assertNotNull(write(run, SOON_MS));
        assertTrue(busy.steps.contains("write"));
    }

    @Test
    void positionsOfAllExecutorsAreJoined() throws Exception {
        RecordPosition first = new RecordPosition("in", 0, 7);
        RecordPosition second = new RecordPosition("in", 1, 9);
        new Executor("0").answers("next", List.of(first));
        new Executor("1").answers("next", Executors.JSON.nullNode(), List.of(second));
        ExecutorParticipants run = participants();
        run.pause(true);
        assertNull(run.next(0, Deadline.in(0)), "a source of the second is busy");
        assertEquals(List.of(first, second), run.next(0, Deadline.in(SOON_MS)));
    }

    @Test
    void anEndedSourceHasNoPosition() throws Exception {
        new Executor("0").answers("next", List.of(new RecordPosition("in", 0, 7)));
        new Executor("1").answers("next", false);
        assertNull(participants().next(0, Deadline.in(SOON_MS)));
    }

    @Test
    void anExecutorThatComesLaterJoinsTheRunFirst() throws Exception {
        ExecutorParticipants run = participants();
        Executor late = new Executor("0");
        assertEquals(List.of("join"), List.copyOf(late.steps).subList(0, 1));
        run.release();
        assertTrue(late.steps.contains("release"));
        assertEquals(List.of(), new Executor("1").steps);
    }

    @Test
    void aLostExecutorBreaksTheRun() throws Exception {
        new Executor("0").answers("next", List.of());
        Executor hung = new Executor("1");
        ExecutorParticipants run = participants();
        hung.end();
        CompletableFuture<Object> waiting = CompletableFuture.supplyAsync(() -> {
            try {
                return run.next(0, Deadline.in(SOON_MS));
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        assertEquals("", run.broken());
        Thread.sleep(50); // the question is on its way
        executors.onExecutorRemoved(new SparkListenerExecutorRemoved(0, "1", "killed"));
        Throwable failure = assertThrows(ExecutionException.class, waiting::get).getCause().getCause();
        assertTrue(failure.getMessage().startsWith("EXECUTOR_LOST"), failure.getMessage());
        assertEquals("executor 1 is gone: killed", run.broken());
        assertThrows(Executors.ExecutorLostException.class, () -> run.next(0, Deadline.in(SOON_MS)));
        assertEquals("", participants().broken(), "the next run begins without it");
    }

    @Test
    void aCommandIsRepeatedUntilItIsAnswered() throws Exception {
        String asks = "{'executor': '0'}".replace('\'', '"');
        CompletableFuture<Object> joined = CompletableFuture.supplyAsync(() -> {
            try {
                executors.receive(asks);
                return participants();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        String first = Deadline.in(SOON_MS).poll(() -> receive(asks).contains("join") ? receive(asks) : null);
        assertEquals(first, receive(asks), "its reply may have been lost");
        String answers = asks.replace("}", ", \"answers\": [{\"id\": 1, \"result\": true}]}");
        assertFalse(receive(answers).contains("join"));
        assertNotNull(joined.get());
        assertFalse(receive(answers).contains("join"), "an answer may come twice");
    }

    private String receive(String message) {
        try {
            return executors.receive(message);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** It may have tasks, whose positions a commit would take for the start of the epoch. */
    @Test
    void aCommitIsDroppedWhileExecutorsComeOrHaveNotAskedYet() throws Exception {
        RecordPosition at = new RecordPosition("in", 0, 7);
        new Executor("0").answers("next", List.of(at));
        ExecutorParticipants run = participants();
        run.pause(true);
        assertEquals(List.of(at), run.next(0, Deadline.in(SOON_MS)));
        executors.onExecutorAdded(new SparkListenerExecutorAdded(
                0, "1", new ExecutorInfo("host", 2, scala.collection.immutable.Map$.MODULE$.empty())));
        assertNull(run.next(0, Deadline.in(SOON_MS)), "one has come");
        run.pause(false);
        run.pause(true);
        assertNull(run.next(0, Deadline.in(SOON_MS)), "it has not asked yet");
        new Executor("1").answers("next", List.of());
        run.pause(false);
        run.pause(true);
        assertEquals(List.of(at), run.next(0, Deadline.in(SOON_MS)));
        run.pause(false);
    }

    @Test
    void anExecutorThatIsLostFromSightIsWaitedFor() throws Exception {
        receive("{\"executor\": \"0\"}");
        receive("{\"executor\": \"1\"}");
        executors.onExecutorRemoved(new SparkListenerExecutorRemoved(0, "0", "Command exited with code 137"));
        assertEquals(0, executors.silentInMs(), "its process has ended");
        executors.onExecutorRemoved(new SparkListenerExecutorRemoved(0, "1", "worker lost"));
        assertTrue(executors.silentInMs() > Executors.LEASE_MS, "it may still run");
    }

    @Test
    void rowsOfTheOthersAreAddedUp() throws Exception {
        String asks = "{\"executor\": \"%d\", \"rows\": {\"run\": {\"sent\": %d, \"received\": %d, \"sources\": 1}}}";
        receive(asks.formatted(0, 5, 1));
        receive(asks.formatted(1, 7, 2));
        JsonNode reply = Executors.JSON.readTree(receive(asks.formatted(2, 100, 100)));
        assertEquals("{\"sent\":12,\"received\":3,\"sources\":2}", reply.get("elsewhere").get("run").toString());
    }

    @Test
    void anExecutorThatWasGivenUpIsCutOff() throws Exception {
        new Executor("0").end();
        executors.onExecutorRemoved(new SparkListenerExecutorRemoved(0, "0", "no heartbeat"));
        assertTrue(executors.receive("{\"executor\": \"0\"}").contains("cut_off"));
        assertFalse(executors.receive("{\"executor\": \"1\"}").contains("cut_off"));
    }
}
