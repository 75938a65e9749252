package dev.eagre;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.flow.Flow;
import dev.eagre.flow.LocalShuffle;
import dev.eagre.flow.Stores;
import dev.eagre.kafka.Producers;
import dev.eagre.letters.Columns;
import dev.eagre.letters.Letters;
import dev.eagre.letters.Position;
import dev.eagre.letters.Watch;
import dev.eagre.python.Plans;
import dev.eagre.python.Ticking;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.AppendColumns;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.trees.TreePattern;
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
import org.apache.spark.sql.streaming.TimeMode;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Says how far a real-time query has delivered, while its epoch goes on.
 *
 * <p>At the end of an epoch Spark stops, plans and starts anew, only to write down two lines: where the
 * sources were, and that it got there. A query without state works off each row before it takes the next, so
 * where its tasks are is known at any time; once the producers have sent what they hold, all rows before
 * are delivered. One with state stands still for a moment, and its state is written; so does one whose rows go
 * through Python, or from task to task. What is given here are the two entries that Spark's logs would get if the
 * epoch ended there.
 *
 * <p>Needs private parts of Spark 4.3 and of its Kafka connector; {@link #fit} says whether they are there.
 */
public final class Bookmarks {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String SPARK = "4.3.";
    private static final String WITH_STATE = "spark.eagre.stateBookmarks";

    /** How long the rows in work may take before the state is written, in milliseconds. */
    private static final long STANDS_WITHIN_MS = 5_000;

    private final MicroBatchExecution query;
    private final boolean stands;
    private long version = -1;
    private CompletableFuture<String> asked;

    /** Where the sources were, the state that was written there, if any, and how long rows had to wait for it. */
    private record Cut(List<Position> positions, Stores.Written state, long stoodNanos) {}

    /** Where a bookmark is to lie; it may throw. */
    private interface Place {
        Cut found(IncrementalExecution epoch) throws Exception;
    }

    Bookmarks(MicroBatchExecution query, boolean stands) {
        this.query = query;
        this.stands = stands;
        Watch.close(false);
    }

    /**
     * Which bookmarks a query over these rows can do with: "rows" where each row is worked off before the next is
     * taken, "still" where it must stand still for one, "state" where it keeps something that is written then, or
     * none. Nothing may be made anew with each epoch, as the current time, subqueries and the watermark of an
     * aggregate are.
     */
    public static String fit(Dataset<Row> rows) {
        var classic = (org.apache.spark.sql.classic.Dataset<Row>) rows;
        LogicalPlan plan = classic.queryExecution().analyzed();
        SparkContext spark = classic.sparkSession().sparkContext();
        boolean fits = classic.sparkSession().version().startsWith(SPARK)
                && alone(spark)
                && !plan.containsPattern(TreePattern.CURRENT_LIKE())
                && !plan.containsPattern(TreePattern.PLAN_EXPRESSION())
                && Producers.known();
        if (!fits) return "";
        if (Columns.rowByRow(rows) && !Plans.callsPython(plan)) return "rows";
        if (!LocalShuffle.inUse() || !Stores.known() || !spark.getConf().getBoolean(WITH_STATE, true)) return "";
        List<LogicalPlan> nodes = PlanTree.nodes(plan);
        boolean aggregates = nodes.stream().anyMatch(node -> node instanceof Aggregate);
        boolean writable = nodes.stream()
                .allMatch(node -> writable(node) || node instanceof EventTimeWatermark && !aggregates);
        if (!writable) return "";
        return aggregates || nodes.stream().anyMatch(node -> node instanceof TransformWithState) ? "state" : "still";
    }

    /** Whether a part of a plan keeps nothing, or keeps it where it can be written in between. */
    private static boolean writable(LogicalPlan node) {
        if (node instanceof TransformWithState state) {
            return (Object) state.statefulProcessor() instanceof Ticking processor
                    && !processor.needsEpochs()
                    && !state.timeMode().equals(TimeMode.EventTime());
        }
        return Columns.passes(node)
                || node instanceof Aggregate
                || node instanceof AppendColumns
                || node instanceof SerializeFromObject
                || node instanceof LocalRelation;
    }

    /** Whether tasks run in this JVM, and none is tried again: it would begin where the epoch began. */
    private static boolean alone(SparkContext context) {
        return context.isLocal() && !context.master().contains(",");
    }

    /** Asks for a bookmark; it takes as long as the producers need to send what they hold. */
    public void ask() {
        ask(stands ? epoch -> stood(epoch, STANDS_WITHIN_MS, false) : epoch -> new Cut(Watch.reached(), null, 0));
    }

    /**
     * Lets no further row in, and asks for a bookmark once the tasks have done those that they have.
     *
     * @return whether they had within the time
     */
    public boolean close(long waitMs) throws Exception {
        if (stands) {
            IncrementalExecution epoch = query.lastExecution();
            Cut cut = epoch == null ? null : stood(epoch, waitMs, true);
            ask(now -> cut);
            return cut != null;
        }
        Watch.close(true);
        List<Position> next = Flow.awaited(System.nanoTime() + waitMs * 1_000_000, Watch::next);
        List<Position> last = next == null ? Watch.reached() : next;
        ask(now -> new Cut(last, null, 0));
        return next != null;
    }

    /** Lets rows in again, once the query has ended: the next one in this JVM may need no bookmarks. */
    public void release() {
        Watch.close(false);
    }

    /**
     * Holds the sources, lets the rows in work be done, and writes the state, if any; one call at a time, since a
     * drain may come while a bookmark is made.
     *
     * @return null if that takes too long
     */
    private synchronized Cut stood(IncrementalExecution epoch, long waitMs, boolean last) throws Exception {
        long began = System.nanoTime();
        long deadline = began + waitMs * 1_000_000;
        Watch.close(true);
        try {
            List<Position> next = Flow.awaited(deadline, Watch::next);
            if (next == null) return null;
            List<StatefulOperatorStateInfo> operators = operators(epoch);
            Stores.Written state = Flow.standing(deadline, () -> Stores.write(query.runId(), operators));
            if (state == null) return null;
            if (operators.isEmpty()) return new Cut(next, null, System.nanoTime() - began);
            long before = version < 0 ? epoch.currentBatchId() : version;
            if (state.version() != before + 1) {
                throw new IllegalStateException(
                        "STATE_NOT_WRITTEN: it is at version " + state.version() + ", not " + (before + 1));
            }
            // What the state looks like: Spark writes it when the first epoch of a run ends.
            if (version < 0) epoch.writeRecordedStateMetadata();
            version = state.version();
            return new Cut(next, state, System.nanoTime() - began);
        } finally {
            if (!last) Watch.close(false);
        }
    }

    private void ask(Place place) {
        CompletableFuture<String> answer = new CompletableFuture<>();
        asked = answer;
        Thread thread = new Thread(() -> {
            try {
                answer.complete(made(place));
            } catch (Throwable error) {
                answer.completeExceptionally(error);
            }
        }, "eagre-bookmark");
        thread.setDaemon(true);
        thread.setContextClassLoader(Thread.currentThread().getContextClassLoader());
        thread.start();
    }

    /** Whether one was asked for and is not there yet. */
    public boolean underWay() {
        return asked != null && !asked.isDone();
    }

    /**
     * The bookmark that was asked for, as JSON: the epoch in which it lies, the sources' {@code position}, and the
     * entries of Spark's two logs, with how long it took and what the state is. Empty where there is none: the epoch
     * just began or ended.
     *
     * @throws java.util.concurrent.CompletionException if a result was lost: the run must begin again before it
     */
    public String answer() {
        CompletableFuture<String> answer = asked;
        asked = null;
        return answer == null ? "" : answer.join();
    }

    private String made(Place place) throws Exception {
        IncrementalExecution epoch = query.lastExecution();
        if (epoch == null) return "";
        long began = System.nanoTime();
        Cut cut = place.found(epoch);
        if (cut == null) return "";
        if (!Producers.flush()) {
            throw new IllegalStateException("RESULT_LOST: the sink gave a result up");
        }
        if (!Letters.settled()) {
            throw new IllegalStateException("DEAD_LETTER_LOST: a row that failed could not be written");
        }
        if (query.lastExecution() != epoch) return "";
        ObjectNode everything = JSON.createObjectNode();
        Map<SparkDataStream, Offset> ends = new HashMap<>();
        for (RealTimeStreamScanExec scan : scans(epoch)) {
            ObjectNode end = end(scan, cut.positions);
            everything.setAll(end);
            ends.put(scan.stream(), new SerializedOffset(end.toString()));
        }
        ObjectNode bookmark = JSON.createObjectNode();
        bookmark.put("batch", cut.state == null ? epoch.currentBatchId() : cut.state.version() - 1);
        bookmark.set("position", everything);
        bookmark.put("offsets", offsets(epoch, ends));
        bookmark.put("commit", commit(epoch, cut.state));
        bookmark.set("phases", JSON.valueToTree(phases(cut, System.nanoTime() - began)));
        bookmark.set("state", JSON.valueToTree(described(cut.state)));
        return bookmark.toString();
    }

    /** How long it took, and how long rows stood still for it, in milliseconds. */
    private Map<String, Long> phases(Cut cut, long nanos) {
        long stood = cut.stoodNanos / 1_000_000;
        if (!stands) return Map.of("bookmark", nanos / 1_000_000);
        return Map.of("bookmark", Math.max(nanos / 1_000_000 - stood, 0), "standstill", stood);
    }

    private static Map<String, Long> described(Stores.Written state) {
        if (state == null) return Map.of();
        return Map.of(
                "operators", (long) state.ids().size(),
                "keys", state.keys(),
                "memory_bytes", state.memoryBytes(),
                "disk_bytes", state.diskBytes(),
                "commit_ms", state.tookMs());
    }

    /** Where a source is: where its epoch began, or where its tasks are by now. */
    private static ObjectNode end(RealTimeStreamScanExec scan, List<Position> positions) throws Exception {
        ObjectNode end = (ObjectNode) JSON.readTree(scan.start().json());
        for (Position position : positions) {
            JsonNode topic = end.get(position.topic());
            String partition = String.valueOf(position.partition());
            if (topic == null || !topic.has(partition)) continue;
            long began = topic.get(partition).asLong();
            ((ObjectNode) topic).put(partition, Math.max(began, position.offset()));
        }
        return end;
    }

    private static List<StatefulOperatorStateInfo> operators(IncrementalExecution epoch) {
        List<StatefulOperatorStateInfo> found = new ArrayList<>();
        operators(epoch.executedPlan(), found);
        return found;
    }

    private static void operators(SparkPlan node, List<StatefulOperatorStateInfo> found) {
        if (node instanceof StatefulOperator state) found.add(state.stateInfo().get());
        for (SparkPlan child : PlanTree.<SparkPlan>list(node.children())) operators(child, found);
    }

    private static List<RealTimeStreamScanExec> scans(IncrementalExecution epoch) {
        List<RealTimeStreamScanExec> scans = new ArrayList<>();
        for (SparkPlan leaf : PlanTree.<SparkPlan>list(epoch.executedPlan().collectLeaves())) {
            if (leaf instanceof RealTimeStreamScanExec scan) scans.add(scan);
        }
        return scans;
    }

    private String offsets(IncrementalExecution epoch, Map<SparkDataStream, Offset> ends) {
        var progress = new StreamProgress(
                Map$.MODULE$.from(CollectionConverters.asScala(ends)));
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        query.offsetLog().serialize(
                progress.toOffsets(query.sources(), query.sourceIdMap(), epoch.offsetSeqMetadata()), text);
        return text.toString(StandardCharsets.UTF_8);
    }

    private String commit(IncrementalExecution epoch, Stores.Written state) {
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
