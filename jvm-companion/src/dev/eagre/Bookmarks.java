package dev.eagre;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.kafka.Producers;
import dev.eagre.letters.Columns;
import dev.eagre.letters.Letters;
import dev.eagre.letters.Position;
import dev.eagre.letters.Watch;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.SerializedOffset;
import org.apache.spark.sql.execution.streaming.runtime.StreamProgress;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Says how far a real-time query without state has delivered, while its epoch goes on.
 *
 * <p>At the end of an epoch Spark stops, plans and starts anew, only to write down two lines: where the
 * sources were, and that it got there. A query without state works off each row before it takes the next, so
 * where its tasks are is known at any time; once the producers have sent what they hold, all rows before
 * are delivered. What is given here are the two entries that Spark's logs would get if the epoch ended there.
 *
 * <p>Needs private parts of Spark 4.3 and of its Kafka connector; {@link #fits} says whether they are there.
 */
public final class Bookmarks {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String SPARK = "4.3.";
    private static final long LOOK_AGAIN_MS = 2;

    private final MicroBatchExecution query;
    private CompletableFuture<String> asked;

    Bookmarks(MicroBatchExecution query) {
        this.query = query;
        Watch.close(false);
    }

    /**
     * Whether a query over these rows can do with bookmarks: no state, nothing that gathers rows, no Python that
     * works ahead, and nothing that is made anew with each epoch, as the current time and subqueries are.
     */
    public static boolean fits(Dataset<Row> rows) {
        var classic = (org.apache.spark.sql.classic.Dataset<Row>) rows;
        LogicalPlan plan = classic.queryExecution().analyzed();
        return classic.sparkSession().version().startsWith(SPARK)
                && alone(classic.sparkSession().sparkContext())
                && Columns.rowByRow(rows)
                && !dev.eagre.python.Plans.callsPython(plan)
                && !plan.containsPattern(TreePattern.CURRENT_LIKE())
                && !plan.containsPattern(TreePattern.PLAN_EXPRESSION())
                && Producers.known();
    }

    /** Whether tasks run in this JVM, and none is tried again: it would begin where the epoch began. */
    private static boolean alone(SparkContext context) {
        return context.isLocal() && !context.master().contains(",");
    }

    /** Asks for a bookmark; it takes as long as the producers need to send what they hold. */
    public void ask() {
        ask(Watch::reached);
    }

    /**
     * Lets no further row in, and asks for a bookmark once the tasks have done those that they have.
     *
     * @return whether they had within the time
     */
    public boolean close(long waitMs) throws InterruptedException {
        Watch.close(true);
        long deadline = System.nanoTime() + waitMs * 1_000_000;
        List<Position> next = Watch.next();
        while (next == null && System.nanoTime() < deadline) {
            Thread.sleep(LOOK_AGAIN_MS);
            next = Watch.next();
        }
        List<Position> last = next == null ? Watch.reached() : next;
        ask(() -> last);
        return next != null;
    }

    private void ask(Supplier<List<Position>> reached) {
        CompletableFuture<String> answer = new CompletableFuture<>();
        asked = answer;
        Thread thread = new Thread(() -> {
            try {
                answer.complete(made(reached));
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
     * entries of Spark's two logs. Empty where there is none: the epoch just began or ended.
     *
     * @throws java.util.concurrent.CompletionException if a result was lost: the run must begin again before it
     */
    public String answer() {
        CompletableFuture<String> answer = asked;
        asked = null;
        return answer == null ? "" : answer.join();
    }

    private String made(Supplier<List<Position>> reached) throws Exception {
        IncrementalExecution epoch = query.lastExecution();
        if (epoch == null) return "";
        List<Position> positions = reached.get();
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
            ObjectNode end = end(scan, positions);
            everything.setAll(end);
            ends.put(scan.stream(), new SerializedOffset(end.toString()));
        }
        ObjectNode bookmark = JSON.createObjectNode();
        bookmark.put("batch", epoch.currentBatchId());
        bookmark.set("position", everything);
        bookmark.put("offsets", offsets(epoch, ends));
        bookmark.put("commit", commit(epoch));
        return bookmark.toString();
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

    private String commit(IncrementalExecution epoch) {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        query.commitLog().serialize(
                query.commitLog().createMetadata(
                        epoch.offsetSeqMetadata().batchWatermarkMs(),
                        Option.empty(),
                        Map$.MODULE$.empty(),
                        query.sparkSessionForStream().sessionState().conf().streamingCommitLogFormatVersion()),
                text);
        return text.toString(StandardCharsets.UTF_8);
    }
}
