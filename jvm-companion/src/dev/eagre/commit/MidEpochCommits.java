package dev.eagre.commit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.spark.PlanTree;
import dev.eagre.spark.SparkInternals;
import dev.eagre.testing.FaultPoint;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.SerializedOffset;
import org.apache.spark.sql.execution.streaming.runtime.StreamProgress;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Commits a real-time query within its epoch.
 *
 * <p>At an epoch boundary Spark stops the query, plans it again and restarts it, only to write two log entries: the
 * source offsets and the commit. A query without state processes each row before it reads the next. A
 * barrier passes between two rows of each source. When the producers have flushed, all rows before it are delivered. A query
 * with state, Python functions or a shuffle pauses its sources briefly until no row is in flight, and then writes its
 * state. The result of a commit is the two entries that Spark's logs would get if the epoch ended there.
 */
public final class MidEpochCommits {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final MicroBatchExecution query;
    private final boolean pauses;
    private final Participants participants;
    private final long patienceMs;
    private boolean released;
    private volatile boolean flushing;
    private volatile CompletableFuture<String> requested;
    private volatile Deadline wait;
    private volatile boolean closing;
    private long waitMs;
    private long version = -1;

    /**
     * The state that a commit wrote.
     *
     * @param version the version of every store
     * @param ids the checkpoint id of each store, by operator and partition, as in the commit log
     * @param keys the number of keys
     * @param memoryBytes their size in memory
     * @param diskBytes their size on disk
     * @param tookMs how long the write took
     */
    public record StateVersion(
            long version, Map<Object, String[][]> ids, long keys, long memoryBytes, long diskBytes, long tookMs) {
        /** Of a query without state. */
        public static final StateVersion NONE = new StateVersion(-1, Map.of(), 0, 0, 0, 0);
    }

    /** The positions of the sources, the state written at that point, if any, and the duration of the pause. */
    private record Cut(List<RecordPosition> positions, StateVersion state, long pausedNanos) {}

    /** Determines the position of a commit. */
    private interface CutFinder {
        Cut find(IncrementalExecution epoch) throws Exception;
    }

    /**
     * Commits a running query.
     *
     * @param pauses whether the sources must pause for a commit, because rows are in flight after they are read
     * @param patienceMs how long a commit waits for the rows in flight before it is given up; the next one waits twice
     *     as long, because the same rows may still be in flight
     */
    public MidEpochCommits(StreamingQuery query, boolean pauses, long patienceMs, Participants participants) {
        this.query = (MicroBatchExecution) SparkInternals.execution(query);
        this.pauses = pauses;
        this.participants = participants;
        this.patienceMs = waitMs = patienceMs;
    }

    /** Requests a commit; it takes as long as the rows in flight, and as the producers need to flush. */
    public void request() {
        request(this::nextCut);
    }

    /**
     * Pauses the sources for the rest of the query, and requests a commit once the rows in flight are processed. It
     * takes the place of a commit that still waits for them.
     *
     * @return whether the rows in flight were processed in time
     */
    public boolean close(long ms) throws Exception {
        closing = true;
        Deadline underWay = wait;
        if (underWay != null) underWay.cancel();
        IncrementalExecution epoch = SparkInternals.runningEpoch(query);
        Cut cut = epoch == null ? null : lastCut(epoch, Deadline.in(ms));
        request(now -> cut);
        return cut != null;
    }

    /**
     * Ends the commits after the query has ended, and waits for its tasks: Spark does not, and a task that is killed
     * may still write results. Calling it again has no effect.
     *
     * @return whether the tasks ended in time
     */
    public boolean release(long waitMs) {
        if (!released) participants.release();
        released = true;
        return participants.awaitEnd(waitMs);
    }

    /** Waits for the rows in flight, for longer each time that they take too long. */
    private synchronized Cut nextCut(IncrementalExecution epoch) throws Exception {
        Deadline deadline = wait = Deadline.in(waitMs);
        if (closing) return null;
        Cut cut = pauses ? pausedCut(epoch, deadline) : passingCut(epoch, deadline);
        waitMs = cut == null ? 2 * waitMs : patienceMs;
        return cut;
    }

    /** Pauses the sources permanently; synchronized, because a drain may start during a commit. */
    private synchronized Cut lastCut(IncrementalExecution epoch, Deadline deadline) throws Exception {
        participants.pause(true);
        return cut(epoch, deadline);
    }

    private Cut passingCut(IncrementalExecution epoch, Deadline deadline) throws Exception {
        List<RecordPosition> next = participants.between(epoch.currentBatchId(), deadline);
        return next == null ? null : new Cut(next, null, 0);
    }

    private Cut pausedCut(IncrementalExecution epoch, Deadline deadline) throws Exception {
        try {
            participants.pause(true);
            return cut(epoch, deadline);
        } finally {
            participants.pause(false);
        }
    }

    /** The position of the paused sources, once the rows in flight are processed, and the state there. */
    private Cut cut(IncrementalExecution epoch, Deadline deadline) throws Exception {
        long began = System.nanoTime();
        List<RecordPosition> next = participants.next(epoch.currentBatchId(), deadline);
        if (next == null) return null;
        FaultPoint.reach("paused");
        StateVersion state = participants.writeState(operators(epoch), deadline);
        if (state == null) return null;
        if (state == StateVersion.NONE) return new Cut(next, null, System.nanoTime() - began);
        long before = version < 0 ? epoch.currentBatchId() : version;
        if (state.version() != before + 1) {
            throw new IllegalStateException(
                    "STATE_NOT_WRITTEN: the state is at version " + state.version() + ", not " + (before + 1));
        }
        // The schema of the state: Spark writes it at the first epoch boundary of a run.
        if (version < 0) epoch.writeRecordedStateMetadata();
        version = state.version();
        return new Cut(next, state, System.nanoTime() - began);
    }

    private void request(CutFinder finder) {
        CompletableFuture<String> answer = new CompletableFuture<>();
        requested = answer;
        Thread thread = new Thread(() -> {
            try {
                answer.complete(commit(finder));
            } catch (Throwable error) {
                answer.completeExceptionally(error);
            }
        }, "eagre-commit");
        thread.setDaemon(true);
        thread.setContextClassLoader(Thread.currentThread().getContextClassLoader());
        thread.start();
    }

    /** Whether a requested commit is still in progress. */
    public boolean underWay() {
        return requested != null && !requested.isDone();
    }

    /** How far the sources have read, as JSON; empty before an epoch. */
    public String readPosition() throws Exception {
        IncrementalExecution epoch = SparkInternals.runningEpoch(query);
        if (epoch == null) return "";
        ObjectNode position = JSON.createObjectNode();
        List<RecordPosition> read = participants.afterRead();
        for (RealTimeStreamScanExec scan : scans(epoch)) position.setAll(end(scan, read));
        return position.toString();
    }

    /** What the requested commit waits for, in a few words. */
    public String waitsFor() {
        return flushing ? "the sink has not confirmed all results" : participants.waitsFor();
    }

    /** Why the run can have no more commits, and must start again; empty while it can. */
    public String broken() {
        return participants.broken();
    }

    /**
     * The requested commit, as JSON: its epoch, the sources' {@code position}, the entries of Spark's two logs, its
     * duration and the size of the state. Empty if there is none: the epoch just began or ended, or the rows in
     * flight took too long.
     *
     * @throws java.util.concurrent.CompletionException if a result was lost: the run must restart from an earlier commit
     */
    public String result() {
        CompletableFuture<String> answer = requested;
        requested = null;
        return answer == null ? "" : answer.join();
    }

    private String commit(CutFinder finder) throws Exception {
        IncrementalExecution epoch = SparkInternals.runningEpoch(query);
        if (epoch == null) return "";
        long began = System.nanoTime();
        FaultPoint.reach("requested");
        Cut cut = finder.find(epoch);
        if (cut == null) return "";
        FaultPoint.reach("cut");
        if (cut.state != null) participants.makeStateDurable();
        FaultPoint.reach("durable");
        flush();
        FaultPoint.reach("flushed");
        if (query.lastExecution() != epoch) return "";
        // The rows in flight of a task that has failed count as processed, because nobody counts them any more.
        if (pauses && participants.hasEnded(epoch.currentBatchId())) return "";
        ObjectNode position = JSON.createObjectNode();
        Map<SparkDataStream, Offset> ends = new HashMap<>();
        for (RealTimeStreamScanExec scan : scans(epoch)) {
            ObjectNode end = end(scan, cut.positions);
            position.setAll(end);
            ends.put(scan.stream(), new SerializedOffset(end.toString()));
        }
        ObjectNode commit = JSON.createObjectNode();
        commit.put("batch", cut.state == null ? epoch.currentBatchId() : cut.state.version() - 1);
        commit.set("position", position);
        commit.put("offsets", offsetEntry(epoch, ends));
        commit.put("commit", commitEntry(epoch, cut.state));
        commit.set("phases", JSON.valueToTree(phases(cut, System.nanoTime() - began)));
        commit.set("state", JSON.valueToTree(describe(cut.state)));
        return commit.toString();
    }

    private void flush() throws Exception {
        flushing = true;
        try {
            participants.flushOutput();
        } finally {
            flushing = false;
        }
    }

    /** The duration of the commit and of the pause of the sources, in milliseconds. */
    private Map<String, Long> phases(Cut cut, long nanos) {
        long paused = cut.pausedNanos / 1_000_000;
        if (!pauses) return Map.of("commit", nanos / 1_000_000);
        return Map.of("commit", Math.max(nanos / 1_000_000 - paused, 0), "pause", paused);
    }

    private static Map<String, Long> describe(StateVersion state) {
        if (state == null) return Map.of();
        return Map.of(
                "operators", (long) state.ids().size(),
                "keys", state.keys(),
                "memory_bytes", state.memoryBytes(),
                "disk_bytes", state.diskBytes(),
                "commit_ms", state.tookMs());
    }

    /** The position of a source: the current offsets of its tasks, or else the start of the epoch. */
    private static ObjectNode end(RealTimeStreamScanExec scan, List<RecordPosition> positions) throws Exception {
        ObjectNode end = (ObjectNode) JSON.readTree(scan.start().json());
        for (RecordPosition position : positions) {
            JsonNode topic = end.get(position.topic());
            String partition = String.valueOf(position.partition());
            if (topic == null || !topic.has(partition)) continue;
            long began = topic.get(partition).asLong();
            ((ObjectNode) topic).put(partition, Math.max(began, position.offset()));
        }
        return end;
    }

    private static List<StatefulOperatorStateInfo> operators(IncrementalExecution epoch) {
        List<StatefulOperatorStateInfo> operators = new ArrayList<>();
        collectOperators(epoch.executedPlan(), operators);
        return operators;
    }

    private static void collectOperators(SparkPlan node, List<StatefulOperatorStateInfo> operators) {
        if (node instanceof StatefulOperator state) operators.add(state.stateInfo().get());
        for (SparkPlan child : PlanTree.<SparkPlan>list(node.children())) collectOperators(child, operators);
    }

    private static List<RealTimeStreamScanExec> scans(IncrementalExecution epoch) {
        List<RealTimeStreamScanExec> scans = new ArrayList<>();
        for (SparkPlan leaf : PlanTree.<SparkPlan>list(epoch.executedPlan().collectLeaves())) {
            if (leaf instanceof RealTimeStreamScanExec scan) scans.add(scan);
        }
        return scans;
    }

    private String offsetEntry(IncrementalExecution epoch, Map<SparkDataStream, Offset> ends) {
        var progress = new StreamProgress(
                Map$.MODULE$.from(CollectionConverters.asScala(ends)));
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        query.offsetLog().serialize(
                progress.toOffsets(query.sources(), query.sourceIdMap(), epoch.offsetSeqMetadata()), text);
        return text.toString(StandardCharsets.UTF_8);
    }

    private String commitEntry(IncrementalExecution epoch, StateVersion state) {
        Option<scala.collection.immutable.Map<Object, String[][]>> ids = state == null
                ? Option.empty()
                : Option.apply(Map$.MODULE$.from(CollectionConverters.asScala(state.ids())));
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        query.commitLog().serialize(
                query.commitLog().createMetadata(
                        epoch.offsetSeqMetadata().batchWatermarkMs(),
                        ids,
                        Map$.MODULE$.empty(),
                        query.sparkSessionForStream().sessionState().conf().streamingCommitLogFormatVersion()),
                text);
        return text.toString(StandardCharsets.UTF_8);
    }
}
