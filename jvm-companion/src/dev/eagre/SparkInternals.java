package dev.eagre;

import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.execution.streaming.runtime.TERMINATED$;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * The only class that touches Spark's private parts. Written against Spark 4.3.0; each method says
 * why the public API is not enough.
 */
public final class SparkInternals {
    private SparkInternals() {}

    /**
     * Lets the running epoch or micro-batch end and commit, and starts no other.
     *
     * <p>{@code StreamingQuery.stop()} interrupts instead: what came since the last commit would be
     * repeated at the next start. The trigger loop of Spark 4.3 asks {@code isActive} before each
     * batch, and {@code isActive} is "state is not TERMINATED", so setting the state is enough.
     */
    public static void drain(StreamingQuery query) {
        execution(query).state().set(TERMINATED$.MODULE$);
    }

    /**
     * Whether the thread of the query has ended. After {@link #drain} the public {@code isActive}
     * is false at once, while the last epoch still runs.
     */
    public static boolean ended(StreamingQuery query) {
        return !execution(query).queryExecutionThread().isAlive();
    }

    private static StreamExecution execution(StreamingQuery query) {
        return ((StreamingQueryWrapper) query).streamingQuery();
    }
}
