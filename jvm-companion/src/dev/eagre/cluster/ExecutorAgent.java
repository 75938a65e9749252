package dev.eagre.cluster;

import static java.util.concurrent.Executors.newSingleThreadExecutor;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.commit.Barrier;
import dev.eagre.commit.RecordPosition;
import dev.eagre.metrics.JvmMetrics;
import dev.eagre.metrics.RowCounters;
import dev.eagre.state.StateStores;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Does in an executor what a commit needs: asks the driver for commands, executes them, and reports their results.
 *
 * <p>An executor that cannot reach the driver ends, so that it writes nothing any more when the driver starts the query
 * again elsewhere. Spark would try a task again if only the task ended.
 */
final class ExecutorAgent implements ExecutorPlugin {
    private static final Logger LOG = LoggerFactory.getLogger(ExecutorAgent.class);
    private static final long RETRY_MS = 500;
    private static final long LEASE_CHECK_NANOS = 500_000_000;
    private static final long REPORT_NANOS = 900_000_000;
    private static final Set<String> SLOW = Set.of("write", "durable", "flush", "deliver");

    private static final int CUT_OFF = 71;

    private final Map<String, RunPart> runs = new ConcurrentHashMap<>();
    private final Queue<ObjectNode> answers = new ConcurrentLinkedQueue<>();

    /** Steps that wait for the disk or for brokers; meanwhile the driver is asked as usual. */
    private final ExecutorService slow = newSingleThreadExecutor(work -> daemon("eagre-commit-step", work));

    private PluginContext driver;
    private long accepted;
    private long measured = System.nanoTime() - REPORT_NANOS;
    private volatile boolean ended;
    private volatile long reached = System.nanoTime();

    @Override
    public void init(PluginContext context, Map<String, String> settings) {
        driver = context;
        int waitMs;
        try {
            waitMs = step(); // Spark sends tasks after this: the runs are joined before.
        } catch (Exception error) { // a commit would leave out the tasks of this executor
            throw new IllegalStateException("EXECUTOR_NOT_JOINED: the driver did not answer", error);
        }
        daemon("eagre-commit-agent", () -> serve(waitMs)).start();
        daemon("eagre-lease", this::watchLease).start();
    }

    private static Thread daemon(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        return thread;
    }

    private void watchLease() {
        while (!ended) {
            LockSupport.parkNanos(LEASE_CHECK_NANOS);
            if (System.nanoTime() - reached > Executors.LEASE_MS * 1_000_000 && !runs.isEmpty()) end("cannot reach the driver");
        }
    }

    /** Ends this executor at once, with its rows in flight and what its producers have not sent yet. */
    private static void end(String reason) {
        LOG.error("EXECUTOR_CUT_OFF: this executor {}; it ends", reason);
        Runtime.getRuntime().halt(CUT_OFF);
    }

    @Override
    public void shutdown() {
        ended = true;
        slow.shutdown();
    }

    private void serve(long firstMs) {
        long waitMs = firstMs;
        while (!ended) {
            try {
                Thread.sleep(waitMs);
                waitMs = step();
            } catch (InterruptedException error) {
                return;
            } catch (Throwable error) { // the driver may answer again
                LOG.warn("the driver could not be asked", error);
                waitMs = RETRY_MS;
            }
        }
    }

    /** Reports results, and executes the commands that come back; returns how long to wait before the next step. */
    private int step() throws Exception {
        List<ObjectNode> reported = List.copyOf(answers);
        ObjectNode message = Executors.JSON.createObjectNode().put("executor", driver.executorID());
        message.putArray("answers").addAll(reported);
        ObjectNode rows = message.putObject("rows");
        runs.forEach((run, part) -> rows.set(run, Executors.JSON.valueToTree(part.barrier().networkRows())));
        if (System.nanoTime() - measured > REPORT_NANOS) {
            message.set("metrics", metrics());
            measured = System.nanoTime();
        }
        long asked = System.nanoTime(); // the driver counts from then at the latest
        JsonNode reply = Executors.JSON.readTree((String) driver.ask(message.toString()));
        reached = asked;
        answers.removeAll(reported);
        if (reply.has("cut_off")) end("was given up by the driver");
        for (Map.Entry<String, JsonNode> other : reply.path("elsewhere").properties()) {
            RunPart part = runs.get(other.getKey());
            if (part != null) part.barrier().setElsewhere(Executors.JSON.treeToValue(other.getValue(), Barrier.NetworkRows.class));
        }
        for (JsonNode command : reply.get("commands")) accept(command);
        return answers.isEmpty() ? reply.get("wait_ms").asInt() : 0;
    }

    /** Executes a command, unless it has come before: the driver repeats it until it is answered. */
    private void accept(JsonNode command) {
        long number = command.get("id").asLong();
        if (number <= accepted) return;
        accepted = number;
        if (SLOW.contains(command.get("do").asText())) slow.execute(() -> answers.add(answer(command)));
        else answers.add(answer(command));
    }

    private ObjectNode metrics() throws Exception {
        ObjectNode metrics = Executors.JSON.createObjectNode();
        metrics.set("jvm", Executors.JSON.readTree(JvmMetrics.report(null)));
        metrics.set("rows", Executors.JSON.readTree(RowCounters.all()));
        ArrayNode reading = metrics.putArray("reading");
        for (RunPart part : runs.values()) {
            part.barrier().afterRead().forEach(at -> reading.add(at.topic() + "/" + at.partition()));
        }
        return metrics;
    }

    private ObjectNode answer(JsonNode command) {
        ObjectNode answer = Executors.JSON.createObjectNode().put("id", command.get("id").asLong());
        try {
            answer.set("result", Executors.JSON.valueToTree(execute(command)));
        } catch (Throwable error) { // the driver decides
            LOG.warn("a step of a commit failed", error);
            answer.put("error", error.toString());
        }
        return answer;
    }

    private Object execute(JsonNode command) throws Exception {
        String run = command.path("run").asText();
        String step = command.get("do").asText();
        switch (step) {
            case "join":
                runs.computeIfAbsent(run, id -> join(command));
                return true;
            case "deliver":
                RunPart.deliverEarlier(command.get("client").asText());
                return true;
            case "left":
                return Barrier.awaitEnd(UUID.fromString(run), 0);
            case "release":
                RunPart left = runs.remove(run);
                if (left != null) left.release();
                return true;
            default:
                RunPart part = runs.get(run);
                if (part == null) throw new IllegalStateException("this executor has not joined run " + run);
                return execute(step, command, part);
        }
    }

    private static RunPart join(JsonNode command) {
        String state = command.path("state").asText("");
        return RunPart.join(
                UUID.fromString(command.get("run").asText()),
                command.get("client").asText(),
                state.isEmpty() ? null : Path.of(state));
    }

    private static Object execute(String step, JsonNode command, RunPart part) throws Exception {
        Barrier barrier = part.barrier();
        switch (step) {
            case "pause":
                barrier.pause(command.get("on").asBoolean());
                return true;
            case "passed":
                return positions(barrier, command, barrier.passed(command.get("barrier").asLong()));
            case "next":
                return positions(barrier, command, barrier.next(command.get("epoch").asLong()));
            case "read":
                return barrier.afterRead();
            case "counts":
                return barrier.counts();
            case "ended":
                return barrier.hasEnded(command.get("epoch").asLong());
            case "stores":
                return StateStores.loadedBy(part.run());
            case "write":
                barrier.flush();
                return StateStores.write(part.run());
            case "durable":
                part.makeStateDurable();
                return true;
            case "flush":
                part.flushOutput();
                return true;
            case "waits":
                return barrier.waitsFor();
            default:
                throw new IllegalArgumentException("no such step of a commit: " + step);
        }
    }

    /** The positions, null if a source is busy; false if a source of the epoch has ended. */
    private static Object positions(Barrier barrier, JsonNode command, List<RecordPosition> positions) {
        return barrier.hasEnded(command.get("epoch").asLong()) ? false : positions;
    }
}
