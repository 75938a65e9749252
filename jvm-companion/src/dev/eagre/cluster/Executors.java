package dev.eagre.cluster;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.commit.Barrier;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;

/**
 * The executors of this application, as the driver knows them. Each asks several times a second what to do, and more often
 * during a commit. A question and its answer are JSON: the classes of a message would have to be known to Spark's RPC, which
 * starts before this jar is loaded.
 */
public final class Executors extends SparkListener {
    static final ObjectMapper JSON = new ObjectMapper();
    /** An executor that has not reached the driver for so long ends. */
    static final long LEASE_MS = 30_000;

    /** Threads of an executor may be late. */
    private static final long LEASE_MARGIN_MS = 5_000;

    /** How Spark says that the process of an executor has ended. */
    private static final String ENDED = "exited with code";

    private static final long JOIN_MS = 60_000;
    private static final int IDLE_MS = 100;

    /** While a query runs, executors also learn how many of the rows that they have sent were received. */
    private static final int RUNNING_MS = 25;

    private static final int URGENT_MS = 1;

    private static final TypeReference<Map<String, Barrier.NetworkRows>> ROWS = new TypeReference<>() {};

    private static volatile Executors current;

    /** An executor that asks what to do. */
    private static final class Executor {
        /** By number, until they are answered: a reply may be lost, and an executor does not repeat a command. */
        private final Map<Long, ObjectNode> commands = new TreeMap<>();

        private final Map<Long, CompletableFuture<JsonNode>> answers = new HashMap<>();

        /** The rows that it has sent and received, by run. */
        private Map<String, Barrier.NetworkRows> rows = Map.of();

        private long asked = System.nanoTime();
    }

    private final Map<String, Executor> executors = new LinkedHashMap<>();
    private final Map<String, Integer> cores = new HashMap<>();
    private final ExecutorMetrics metrics = new ExecutorMetrics();

    /** The command with which an executor joins a run, by run. */
    private final Map<String, ObjectNode> runs = new LinkedHashMap<>();

    /** Why executors were removed, by their id, which Spark uses once. */
    private final Map<String, String> removed = new LinkedHashMap<>();

    /** Those that were removed, also before they asked: they must not come back. */
    private final Set<String> gone = new HashSet<>();

    private long commands;
    private int urgent;
    private long changes;

    /** When the last executor that may still run has ended at the latest. */
    private long silentAt = System.nanoTime();

    static void use(Executors executors) {
        current = executors;
    }

    /** Those of this JVM's Spark context; null in local mode, and without the plugin. */
    public static Executors current() {
        return current;
    }

    ExecutorMetrics metrics() {
        return metrics;
    }

    /** Thrown when an executor does not answer any more: the tasks that it had are lost. */
    public static final class ExecutorLostException extends Exception {
        private static final long serialVersionUID = 1;

        ExecutorLostException(String problem) {
            super("EXECUTOR_LOST: " + problem);
        }
    }

    /** Answers an executor that reports results and asks what to do. */
    String receive(String message) throws IOException {
        JsonNode question = JSON.readTree(message);
        ObjectNode reply = JSON.createObjectNode();
        String id = question.get("executor").asText();
        List<Runnable> completions = new ArrayList<>();
        synchronized (this) {
            if (gone.contains(id)) return reply.put("cut_off", true).toString();
            Executor executor = executors.get(id);
            if (executor == null) executor = add(id);
            executor.asked = System.nanoTime();
            if (question.path("metrics") instanceof ObjectNode report) metrics.report(id, report);
            for (JsonNode answer : question.path("answers")) {
                executor.commands.remove(answer.get("id").asLong());
                CompletableFuture<JsonNode> future = executor.answers.remove(answer.get("id").asLong());
                if (future != null) completions.add(() -> future.complete(answer));
            }
            if (question.has("rows")) executor.rows = JSON.convertValue(question.get("rows"), ROWS);
            reply.put("wait_ms", urgent > 0 ? URGENT_MS : runs.isEmpty() ? IDLE_MS : RUNNING_MS);
            reply.putArray("commands").addAll(executor.commands.values());
            reply.set("elsewhere", JSON.valueToTree(elsewhere(executor)));
        }
        completions.forEach(Runnable::run);
        return reply.toString();
    }

    /** Adds an executor, which joins the runs before it gets a task. */
    private Executor add(String id) {
        Executor executor = new Executor();
        executors.put(id, executor);
        changes++;
        runs.values().forEach(join -> send(executor, join));
        return executor;
    }

    /** What all other executors have sent and received, by the runs of one. */
    private Map<String, Barrier.NetworkRows> elsewhere(Executor executor) {
        Map<String, Barrier.NetworkRows> all = new HashMap<>();
        for (String run : executor.rows.keySet()) {
            long sent = 0;
            long received = 0;
            int sources = 0;
            for (Executor other : executors.values()) {
                Barrier.NetworkRows rows = other.rows.get(run);
                if (other == executor || rows == null) continue;
                sent += rows.sent();
                received += rows.received();
                sources += rows.sources();
            }
            all.put(run, new Barrier.NetworkRows(sent, received, sources));
        }
        return all;
    }

    @Override
    public synchronized void onExecutorAdded(SparkListenerExecutorAdded event) {
        cores.put(event.executorId(), event.executorInfo().totalCores());
        changes++;
    }

    /**
     * A number that differs after an executor has come or gone; -1 while one has come that has not asked yet: it may
     * have tasks that a commit would leave out.
     */
    synchronized long membership() {
        return executors.keySet().containsAll(cores.keySet()) ? changes : -1;
    }

    /** In how many milliseconds every executor that was lost has ended: Spark may only have lost sight of it. */
    synchronized long silentInMs() {
        return Math.max(0, (silentAt - System.nanoTime()) / 1_000_000);
    }

    /** The cores of all executors that take tasks now. */
    synchronized int count() {
        return cores.size();
    }

    synchronized int cores() {
        return cores.values().stream().mapToInt(Integer::intValue).sum();
    }

    @Override
    public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
        List<CompletableFuture<JsonNode>> waiting;
        synchronized (this) {
            cores.remove(event.executorId());
            metrics.remove(event.executorId());
            Executor executor = executors.remove(event.executorId());
            changes++;
            gone.add(event.executorId());
            if (executor == null) return;
            if (!event.reason().contains(ENDED)) {
                long ends = executor.asked + (LEASE_MS + LEASE_MARGIN_MS) * 1_000_000;
                silentAt = ends - silentAt > 0 ? ends : silentAt;
            }
            removed.put(event.executorId(), "executor " + event.executorId() + " is gone: " + event.reason());
            waiting = List.copyOf(executor.answers.values());
        }
        waiting.forEach(answer -> answer.completeExceptionally(new ExecutorLostException(event.reason())));
    }

    /** Which executors have been lost so far, and why. */
    synchronized List<String> removed() {
        return List.copyOf(removed.values());
    }

    /** Lets all executors, and those that come later, join a run. */
    void join(String run, ObjectNode command) throws Exception {
        List<CompletableFuture<JsonNode>> answers;
        synchronized (this) {
            runs.put(run, command);
            answers = send(command);
        }
        await(answers, JOIN_MS);
    }

    /** Forgets a run; executors that come later do not join it. */
    synchronized void forget(String run) {
        runs.remove(run);
    }

    /** From now on executors ask without a delay, until {@link #relax}. */
    synchronized void hurry() {
        urgent++;
    }

    synchronized void relax() {
        urgent--;
    }

    /**
     * Sends a command to all executors, and waits for their answers.
     *
     * @throws ExecutorLostException if one of them is gone, or does not answer in time
     * @throws IllegalStateException if one of them reports an error
     */
    List<JsonNode> ask(ObjectNode command, long waitMs) throws Exception {
        List<CompletableFuture<JsonNode>> answers;
        synchronized (this) {
            answers = send(command);
        }
        return await(answers, waitMs);
    }

    private static List<JsonNode> await(List<CompletableFuture<JsonNode>> answers, long waitMs) throws Exception {
        List<JsonNode> all = new ArrayList<>();
        for (CompletableFuture<JsonNode> answer : answers) all.add(result(answer, waitMs));
        return all;
    }

    private static JsonNode result(CompletableFuture<JsonNode> answer, long waitMs) throws Exception {
        try {
            JsonNode reply = answer.get(waitMs, TimeUnit.MILLISECONDS);
            if (reply.has("error")) throw new IllegalStateException(reply.get("error").asText());
            return reply.path("result");
        } catch (TimeoutException error) {
            throw new ExecutorLostException("an executor did not answer within " + waitMs + " ms");
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        }
    }

    private List<CompletableFuture<JsonNode>> send(ObjectNode command) {
        return executors.values().stream().map(executor -> send(executor, command)).toList();
    }

    private CompletableFuture<JsonNode> send(Executor executor, ObjectNode command) {
        long number = ++commands;
        CompletableFuture<JsonNode> answer = new CompletableFuture<>();
        executor.answers.put(number, answer);
        executor.commands.put(number, command.deepCopy().put("id", number));
        return answer;
    }
}
