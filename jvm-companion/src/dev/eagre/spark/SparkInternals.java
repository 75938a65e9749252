package dev.eagre.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkStatusTracker;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.optimizer.Optimizer;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanExecBase;
import org.apache.spark.sql.execution.datasources.v2.LowLatencyClock;
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.streaming.RealTimeTrigger;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.execution.streaming.runtime.TERMINATED$;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.util.SystemClock;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Access to sessions and running queries beyond Spark's public API. Written against Spark 4.3.0; each method says why
 * the public API is not enough.
 */
public final class SparkInternals {
    private SparkInternals() {}

    /**
     * Makes epochs and timers of this JVM use a clock that never goes back; Spark has a variable for the clock, for
     * its own tests.
     */
    public static void useSteadyClock() {
        if (LowLatencyClock.getClock() instanceof SteadyClock) return;
        LowLatencyClock.setClock(new SteadyClock(new SystemClock()));
    }

    /**
     * Every explicit setting of a session, including those of its context, as JSON.
     *
     * <p>PySpark fetches a hundred pairs with five calls each, in the seconds before the first output.
     */
    public static String settings(SparkSession session) throws JsonProcessingException {
        Map<String, String> settings = new LinkedHashMap<>();
        for (Tuple2<String, String> pair : session.sparkContext().getConf().getAll()) {
            settings.put(pair._1(), pair._2());
        }
        settings.putAll(CollectionConverters.asJava(session.conf().getAll()));
        return new ObjectMapper().writeValueAsString(settings);
    }

    /**
     * Removes the source file of each of Hadoop's settings.
     *
     * <p>The settings are sent to the tasks of every epoch with state, and Hadoop compresses each source separately:
     * over a thousand small archives. Only Hadoop's own settings page shows the sources.
     */
    public static void dropSettingSources(SparkContext context) {
        if (!PrivateMember.SETTING_SOURCES.available()) return;
        Configuration settings = context.hadoopConfiguration();
        settings.size();
        Object sources = PrivateMember.SETTING_SOURCES.read("updatingResource", settings);
        if (sources instanceof Map<?, ?> map) map.clear();
    }

    /**
     * Lets the running epoch or micro-batch end and commit, and starts no other.
     *
     * <p>{@code StreamingQuery.stop()} interrupts the query instead: the next start would process the records since
     * the last commit again. The trigger loop of Spark 4.3 checks {@code isActive} before each batch, and {@code isActive} is "state is not TERMINATED", so setting the state is enough.
     */
    public static void drain(StreamingQuery query) {
        execution(query).state().set(TERMINATED$.MODULE$);
    }

    /**
     * Whether the thread of the query has ended. After {@link #drain} the public {@code isActive}
     * is false immediately, while the last epoch is still running.
     */
    public static boolean ended(StreamingQuery query) {
        return !execution(query).queryExecutionThread().isAlive();
    }

    /** The state stores that are loaded in this JVM. */
    @SuppressWarnings("unchecked")
    public static scala.collection.mutable.Map<StateStoreProviderId, StateStoreProvider> loadedStateStores() {
        return (scala.collection.mutable.Map<StateStoreProviderId, StateStoreProvider>)
                PrivateMember.STATE_STORES.read("loadedProviders", StateStore$.MODULE$);
    }

    /** Replaces the readers of a real-time scan. */
    public static void replaceReaders(RealTimeStreamScanExec scan, PartitionReaderFactory readers) {
        PrivateMember.SCAN_READERS.write("readerFactory", scan, readers);
    }

    /** Replaces the planner of a session. */
    public static void replacePlanner(SessionState session, Analyzer analyzer, Optimizer optimizer) {
        PrivateMember.SESSION_PLANNER.write("analyzer", session, analyzer);
        PrivateMember.SESSION_PLANNER.write("optimizer", session, optimizer);
    }

    /** Whether a query runs in real time; the public API does not expose its trigger. */
    public static boolean realTime(StreamingQuery query) {
        return execution(query).trigger() instanceof RealTimeTrigger;
    }

    /** The checkpoint of a query; the public API does not expose it. */
    public static String checkpoint(StreamingQuery query) {
        return execution(query).resolvedCheckpointRoot();
    }

    /** The checkpoint of a query on a local or mounted disk, as a folder; null if it is elsewhere. */
    public static java.nio.file.Path localCheckpoint(StreamingQuery query) {
        java.net.URI uri = new org.apache.hadoop.fs.Path(checkpoint(query)).toUri();
        boolean local = uri.getScheme() == null || uri.getScheme().equals("file");
        return local ? java.nio.file.Path.of(uri.getPath()) : null;
    }

    /**
     * Whether a query has state with processing-time timers or TTL: Spark then always has another batch to run, so
     * the query never ends by itself.
     */
    public static boolean usesProcessingTime(Dataset<Row> rows) {
        return ((org.apache.spark.sql.classic.Dataset<Row>) rows)
                .queryExecution()
                .analyzed()
                .exists(new AbstractFunction1<>() {
                    @Override
                    public Object apply(LogicalPlan node) {
                        return node instanceof TransformWithState state
                                && state.timeMode().equals(TimeMode.ProcessingTime());
                    }
                });
    }

    /**
     * The epoch that runs; null until it has started a job. Nobody may ask for its plan before that: the caller would
     * plan it, for the second time if a stop interrupted Spark's own planning, and Spark then gives its stateful
     * operators other numbers than the checkpoint has.
     */
    public static IncrementalExecution runningEpoch(StreamExecution query) {
        IncrementalExecution epoch = query.lastExecution();
        if (epoch == null) return null;
        SparkStatusTracker jobs = epoch.sparkSession().sparkContext().statusTracker();
        return jobs.getJobIdsForGroup(query.runId().toString()).length > 0 ? epoch : null;
    }

    /**
     * The current physical plan, as JSON: each operator with its inputs, and a shuffle with its partitions. The public
     * API returns it only as text.
     */
    public static String physicalPlan(StreamingQuery query) throws JsonProcessingException {
        var running = runningEpoch(execution(query));
        List<Map<String, Object>> nodes = new ArrayList<>();
        if (running != null) describe(running.executedPlan(), nodes);
        return new ObjectMapper().writeValueAsString(nodes);
    }

    private static int describe(SparkPlan node, List<Map<String, Object>> nodes) {
        List<Integer> inputs = new ArrayList<>();
        for (SparkPlan child : CollectionConverters.asJava(node.children())) {
            inputs.add(describe(child, nodes));
        }
        Map<String, Object> entry = new LinkedHashMap<>();
        entry.put("id", nodes.size());
        entry.put("name", node.nodeName());
        entry.put("inputs", inputs);
        entry.put("shuffle", node instanceof ShuffleExchangeExec);
        entry.put("source", node instanceof DataSourceV2ScanExecBase scan && scan.scan().getClass().getName().contains("Kafka"));
        entry.put("stateful", node instanceof StatefulOperator);
        entry.put("partitions", node.outputPartitioning().numPartitions());
        nodes.add(entry);
        return nodes.size() - 1;
    }

    /** The execution of a query; the public API exposes only a wrapper. */
    public static StreamExecution execution(StreamingQuery query) {
        return ((StreamingQueryWrapper) query).streamingQuery();
    }
}
