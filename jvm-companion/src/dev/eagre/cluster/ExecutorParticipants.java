package dev.eagre.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.commit.Deadline;
import dev.eagre.commit.MidEpochCommits.StateVersion;
import dev.eagre.commit.Participants;
import dev.eagre.commit.RecordPosition;
import dev.eagre.commit.RowsInFlight;
import dev.eagre.state.StateStores;
import dev.eagre.state.StateStores.WrittenStore;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;

/**
 * The tasks of a run on the executors of a cluster. If one of the executors is lost, the run has no more commits: the
 * position of its sources is not known.
 */
public final class ExecutorParticipants implements Participants {
    /** An executor answers between two steps of a commit; a long GC or a starved machine may hold it. */
    private static final long ANSWER_MS = 60_000;

    /** Spark's producers give a record up after their own delivery timeout, usually two minutes. */
    private static final long FLUSH_MS = 180_000;

    private final UUID run;
    private final Executors executors;
    private final int lostBefore;
    private final AtomicLong barriers = new AtomicLong();
    private boolean hurried;
    private long members;
    private volatile String waitsFor = "the query's tasks have not started";

    ExecutorParticipants(UUID run, Executors executors, String clientId, String stateFolder)
            throws Exception {
        this.run = run;
        this.executors = executors;
        lostBefore = executors.removed().size();
        executors.join(
                run.toString(),
                command("join").put("client", clientId).put("state", stateFolder));
    }

    private ObjectNode command(String step) {
        return Executors.JSON.createObjectNode().put("do", step).put("run", run.toString());
    }

    private List<JsonNode> ask(ObjectNode command, long waitMs) throws Exception {
        List<JsonNode> answers = executors.ask(command, waitMs);
        String lost = broken();
        if (!lost.isEmpty()) throw new Executors.ExecutorLostException(lost);
        return answers;
    }

    private List<JsonNode> ask(String step) throws Exception {
        return ask(command(step), ANSWER_MS);
    }

    @Override
    public synchronized void pause(boolean pause) throws Exception {
        hurry(pause);
        if (pause) members = executors.membership();
        if (pause) ask("counts"); // all of them ask often after that, and pause at nearly the same time
        ask(command("pause").put("on", pause), ANSWER_MS);
    }

    /** Lets the executors ask without a delay while the sources are paused. */
    private synchronized void hurry(boolean now) {
        if (now && !hurried) executors.hurry();
        if (!now && hurried) executors.relax();
        hurried = now;
    }

    @Override
    public List<RecordPosition> between(long epoch, Deadline deadline) throws Exception {
        members = executors.membership();
        long number = barriers.incrementAndGet();
        return positions(command("passed").put("epoch", epoch).put("barrier", number), deadline);
    }

    @Override
    public List<RecordPosition> next(long epoch, Deadline deadline) throws Exception {
        return positions(command("next").put("epoch", epoch), deadline);
    }

    /** Asks until all executors know the positions of their sources. */
    private List<RecordPosition> positions(ObjectNode command, Deadline deadline) throws Exception {
        while (true) {
            List<JsonNode> answers = ask(command, ANSWER_MS);
            if (answers.stream().anyMatch(JsonNode::isBoolean) || !complete()) return null;
            if (answers.stream().noneMatch(JsonNode::isNull)) return positions(answers);
            waitsFor = "a task is processing a row";
            if (deadline.hasPassed()) return null;
        }
    }

    /** Whether all executors that may have tasks take part since the commit began. */
    private boolean complete() {
        return members >= 0 && members == executors.membership();
    }

    private static List<RecordPosition> positions(List<JsonNode> answers) {
        List<RecordPosition> positions = new ArrayList<>();
        for (JsonNode answer : answers) {
            for (JsonNode at : answer) {
                positions.add(new RecordPosition(
                        at.get("topic").asText(), at.get("partition").asInt(), at.get("offset").asLong()));
            }
        }
        return positions;
    }

    @Override
    public List<RecordPosition> afterRead() throws Exception {
        return positions(ask("read"));
    }

    @Override
    public StateVersion writeState(List<StatefulOperatorStateInfo> operators, Deadline deadline) throws Exception {
        if (!awaitIdle(deadline) || !complete()) return null;
        int loaded = ask("stores").stream().mapToInt(JsonNode::asInt).sum();
        if (loaded != StateStores.count(operators)) return null;
        long began = System.nanoTime();
        List<WrittenStore> stores = new ArrayList<>();
        for (JsonNode answer : ask("write")) {
            for (JsonNode store : answer) stores.add(Executors.JSON.treeToValue(store, WrittenStore.class));
        }
        if (!complete()) return null;
        return operators.isEmpty() ? StateVersion.NONE : StateStores.merge(operators, stores, began);
    }

    @Override
    public boolean hasEnded(long epoch) throws Exception {
        return ask(command("ended").put("epoch", epoch), ANSWER_MS).stream().anyMatch(JsonNode::asBoolean);
    }

    /**
     * Waits until no row is in flight between or in the executors. They are asked twice: if all tasks were idle when they were asked first,
     * and no more rows had been sent at the second time than were received at the first, then nothing has happened in between.
     */
    private boolean awaitIdle(Deadline deadline) throws Exception {
        while (true) {
            List<RowsInFlight.Counts> first = counts();
            long sent = counts().stream().mapToLong(RowsInFlight.Counts::sent).sum();
            long received = first.stream().mapToLong(RowsInFlight.Counts::received).sum();
            if (sent == received && first.stream().allMatch(RowsInFlight.Counts::idle)) return true;
            waitsFor = sent > received ? sent - received + " rows are in flight" : "a task is processing a row";
            if (deadline.hasPassed()) return false;
        }
    }

    private List<RowsInFlight.Counts> counts() throws Exception {
        List<RowsInFlight.Counts> all = new ArrayList<>();
        for (JsonNode answer : ask("counts")) all.add(Executors.JSON.treeToValue(answer, RowsInFlight.Counts.class));
        return all;
    }

    @Override
    public void makeStateDurable() throws Exception {
        ask("durable");
    }

    @Override
    public void flushOutput() throws Exception {
        ask(command("flush"), FLUSH_MS);
    }

    @Override
    public String waitsFor() {
        return waitsFor;
    }

    @Override
    public String broken() {
        List<String> removed = executors.removed();
        return String.join("; ", removed.subList(lostBefore, removed.size()));
    }

    @Override
    public void release() {
        executors.forget(run.toString());
        hurry(false);
        tell("release");
    }

    /** Tells the executors that are left; returns null if one of them does not answer. */
    private List<JsonNode> tell(String step) {
        try {
            return executors.ask(command(step), ANSWER_MS);
        } catch (Exception lost) {
            return null;
        }
    }

    @Override
    public boolean awaitEnd(long waitMs) {
        Boolean ended = Deadline.in(waitMs).poll(() -> {
            List<JsonNode> left = tell("left");
            return left != null && left.stream().allMatch(JsonNode::asBoolean) ? Boolean.TRUE : null;
        });
        return ended != null;
    }
}
