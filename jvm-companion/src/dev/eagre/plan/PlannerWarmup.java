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
 * <p>At the end of each epoch Spark plans the next one from the beginning, while no row is processed. In a
 * young JVM that code is interpreted; after some dozens of times it is compiled. What is planned here is
 * thrown away: no job is started, and nothing is written.
 */
public final class PlannerWarmup extends Thread {
    private static final Logger LOG = LoggerFactory.getLogger(PlannerWarmup.class);

    /** After each time it rests so many times as long: the stream needs the cores. */
    private static final int REST = 3;

    private static final long LEAST_REST_MS = 100;

    private final StreamExecution query;
    private final long leastRestMs;
    private volatile int left;

    /** Starts it for a query that runs in real time; where epochs are long, the times fill the first half of one. */
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
        leastRestMs = Math.max(LEAST_REST_MS, epochMs / 2 / times);
        left = times;
    }

    /** How often it will still plan; it ends early where planning fails or the query ends. */
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
                Thread.sleep(Math.max(leastRestMs, REST * tookMs));
            }
        } catch (Exception | LinkageError error) {
            // Then the first epoch boundaries warm the planner up.
            LOG.debug("planning ahead ended early", error);
        }
    }

    private static void plan(IncrementalExecution running) {
        SparkSession.setActiveSession(running.sparkSession());
        var again = new IncrementalExecution(
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
                false, // not the first batch: that one records what the state looks like
                running.currentStateStoreCkptId().clone(),
                running.stateSchemaMetadatas().clone(),
                CommandExecutionMode.ALL(),
                false,
                running.isRealTimeMode());
        // The root writes; what is below it only makes the job's parts.
        for (SparkPlan child : CollectionConverters.asJava(again.executedPlan().children())) child.execute();
    }
}
