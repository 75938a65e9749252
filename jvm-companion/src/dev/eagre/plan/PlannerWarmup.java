package dev.eagre.plan;

import dev.eagre.spark.SparkInternals;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.RealTimeTrigger;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkPropagator;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Plans the epoch that runs some dozens of times beside it, in the first seconds of a query.
 *
 * <p>At each epoch boundary Spark plans the next epoch from scratch, while no row is processed. In a new JVM that
 * code is interpreted; after some dozens of runs it is compiled. The plans made here are discarded: no job is
 * started, and nothing is written.
 */
public final class PlannerWarmup extends Thread {
    private static final Logger LOG = LoggerFactory.getLogger(PlannerWarmup.class);

    /** After each plan it pauses this many times as long, because the stream needs the cores. */
    private static final int PAUSE_FACTOR = 3;

    private static final long MIN_PAUSE_MS = 100;

    private final StreamExecution query;
    private final long minPauseMs;
    private volatile int left;

    /** Starts the warm-up for a real-time query; it spreads the plans over the first half of a long epoch. */
    public static PlannerWarmup start(StreamingQuery query, int times) {
        PlannerWarmup warmup = new PlannerWarmup(SparkInternals.execution(query), times);
        warmup.start();
        return warmup;
    }

    private PlannerWarmup(StreamExecution query, int times) {
        super("eagre-planner-warmup");
        setDaemon(true);
        this.query = query;
        long epochMs = query.trigger() instanceof RealTimeTrigger trigger ? trigger.batchDurationMs() : 0;
        minPauseMs = Math.max(MIN_PAUSE_MS, epochMs / 2 / times);
        left = times;
    }

    /** The number of remaining plans; the warm-up ends early if planning fails or the query ends. */
    public int left() {
        return left;
    }

    @Override
    public void run() {
        try {
            while (left > 0 && query.isActive()) {
                long begin = System.nanoTime();
                IncrementalExecution running = query.lastExecution();
                if (running != null) {
                    plan(running);
                    left--;
                }
                long tookMs = (System.nanoTime() - begin) / 1_000_000;
                Thread.sleep(Math.max(minPauseMs, PAUSE_FACTOR * tookMs));
            }
        } catch (Exception | LinkageError error) {
            // The first epoch boundaries warm up the planner instead.
            LOG.debug("the planner warm-up ended early", error);
        }
    }

    private static void plan(IncrementalExecution running) {
        SparkSession.setActiveSession(running.sparkSession());
        var execution = new IncrementalExecution(
                running.sparkSession(),
                running.logical(),
                running.outputMode(),
                running.checkpointLocation(),
                running.queryId(),
                running.runId(),
                running.currentBatchId(),
                running.prevOffsetSeqMetadata(),
                running.offsetSeqMetadata(),
                WatermarkPropagator.noop(),
                false, // not the first batch: that one records the schema of the state
                running.currentStateStoreCkptId().clone(),
                running.stateSchemaMetadatas().clone(),
                CommandExecutionMode.ALL(),
                false,
                running.isRealTimeMode());
        // The root would write; the nodes below it only prepare the job.
        for (SparkPlan child : CollectionConverters.asJava(execution.executedPlan().children())) child.execute();
    }
}
