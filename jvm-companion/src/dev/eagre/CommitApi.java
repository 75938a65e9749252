package dev.eagre;

import dev.eagre.cluster.Cluster;
import dev.eagre.commit.Barrier;
import dev.eagre.commit.MidEpochCommits;
import dev.eagre.deadletter.ParseRecord;
import dev.eagre.python.PythonFunction;
import dev.eagre.shuffle.CountedShuffle;
import dev.eagre.shuffle.InProcessShuffle;
import dev.eagre.spark.PlanShape;
import dev.eagre.spark.PlanTree;
import dev.eagre.spark.PrivateMember;
import dev.eagre.state.TimerDriven;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.shuffle.PipelinedShuffleManager;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.AppendColumns;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.TimeMode;

/** Mid-epoch commits, as called from Python: whether a query supports them, and how they start. */
public final class CommitApi {
    private static final String SPARK = "4.3.";
    private static final List<String> WITH_STATE = List.of("spark.eagre.stateCommits", "spark.eagre.stateBookmarks");

    private CommitApi() {}

    /**
     * The kind of mid-epoch commits that a query over these rows supports: "rows" if each row is processed before the
     * next is read, "pause" if the sources must pause, "state" if state must be written as well, or empty. The query
     * must not compute anything once per epoch, such as the current time, subqueries, or the watermark of an
     * aggregate.
     */
    public static String supported(Dataset<Row> rows) {
        var classic = (org.apache.spark.sql.classic.Dataset<Row>) rows;
        LogicalPlan plan = classic.queryExecution().analyzed();
        SparkContext spark = classic.sparkSession().sparkContext();
        boolean possible = classic.sparkSession().version().startsWith(SPARK)
                && (inOneJvm(spark) || Cluster.connected(spark))
                && !plan.containsPattern(TreePattern.CURRENT_LIKE())
                && !plan.containsPattern(TreePattern.PLAN_EXPRESSION())
                && PrivateMember.PRODUCER_POOL.available()
                && PrivateMember.SCAN_READERS.available();
        if (!possible || !sourcesAreTracked(plan)) return "";
        if (PlanShape.rowByRow(rows) && !PythonFunction.calledIn(plan)) return "rows";
        boolean withState = WITH_STATE.stream().allMatch(key -> spark.getConf().getBoolean(key, true));
        if (!shuffledRowsAreCounted(spark) || !PrivateMember.STATE_STORES.available() || !withState) return "";
        List<LogicalPlan> nodes = PlanTree.nodes(plan);
        boolean aggregates = nodes.stream().anyMatch(node -> node instanceof Aggregate);
        boolean writable = nodes.stream()
                .allMatch(node -> writable(node) || node instanceof EventTimeWatermark && !aggregates);
        if (!writable || aggregates && !PrivateMember.AGGREGATE_ITERATOR.available()) return "";
        return aggregates || nodes.stream().anyMatch(node -> node instanceof TransformWithState) ? "state" : "pause";
    }

    /** Whether each stream is read by one of Eagre's sources, which can be paused, and no topic is read twice. */
    private static boolean sourcesAreTracked(LogicalPlan plan) {
        List<String> subscribed = subscribed(plan);
        List<String> topics = subscribed.stream().flatMap(all -> Stream.of(all.split(","))).map(String::strip).toList();
        return !subscribed.isEmpty()
                && new HashSet<>(topics).size() == topics.size()
                && subscribed.size() == ParseRecord.countIn(plan);
    }

    /** The topics of each streaming source, in the order of Spark's offset log; empty if a source has none. */
    public static List<String> subscriptions(Dataset<Row> rows) {
        return subscribed(((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().analyzed());
    }

    private static List<String> subscribed(LogicalPlan plan) {
        List<String> all = new ArrayList<>();
        for (LogicalPlan node : PlanTree.nodes(plan)) {
            if (!node.isStreaming() || !node.children().isEmpty()) continue;
            String topics = node instanceof StreamingRelationV2 relation ? relation.extraOptions().get("subscribe") : null;
            if (topics == null) return List.of();
            all.add(topics);
        }
        return all;
    }

    /** Whether a plan node has no state, or state that can be written within an epoch. */
    private static boolean writable(LogicalPlan node) {
        if (node instanceof TransformWithState state) {
            return (Object) state.statefulProcessor() instanceof TimerDriven processor
                    && !processor.needsEpochs()
                    && !state.timeMode().equals(TimeMode.EventTime());
        }
        return PlanShape.isStateless(node)
                || node instanceof Aggregate
                || node instanceof AppendColumns
                || node instanceof SerializeFromObject
                || node instanceof LocalRelation;
    }

    /** Whether tasks run in this JVM and are not retried: a retry would start from the beginning of the epoch. */
    private static boolean inOneJvm(SparkContext context) {
        return context.isLocal() && !context.master().contains(",");
    }

    /** Whether this session's real-time shuffles count their rows. */
    private static boolean shuffledRowsAreCounted(SparkContext spark) {
        PipelinedShuffleManager shuffle = SparkEnv.get().pipelinedShuffleManager();
        return inOneJvm(spark) ? shuffle instanceof InProcessShuffle : shuffle instanceof CountedShuffle;
    }

    /** Waits for the tasks of a stopped query; see {@link Barrier#awaitEnd}. */
    public static boolean awaitTasks(String run, long waitMs) {
        return Barrier.awaitEnd(UUID.fromString(run), waitMs);
    }

    /**
     * Starts the commits of a running query; see {@link MidEpochCommits}.
     *
     * @param patienceMs how long a commit waits for the rows in flight at first
     * @param clientId the client id of its sink's producers
     */
    public static MidEpochCommits start(
            StreamingQuery query, boolean pauses, long patienceMs, String clientId) throws Exception {
        return new MidEpochCommits(query, pauses, patienceMs, Cluster.participants(query, clientId));
    }
}
