package dev.eagre.deadletter;

import dev.eagre.commit.RecordPosition;
import dev.eagre.spark.FailedTaskValues;
import java.io.Serializable;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.util.CollectionAccumulator;

/**
 * The records at which tasks of a query failed. They reach the driver in an accumulator that keeps the values of
 * failed tasks.
 */
public final class SuspectRecords implements Serializable {
    private static final Deque<SuspectRecords> RETAINED = new ArrayDeque<>();
    private static final int MAX_RETAINED = 100;

    private static final List<String> EAGRE_ERRORS =
            List.of("PYTHON_FUNCTION_FAILED", "RECORD_REFUSED", "ROW_TOO_LARGE", "DEAD_LETTER_LOST");
    private static final List<String> INFRASTRUCTURE =
            List.of("org.apache.kafka.", "java.net.", "java.util.concurrent.", "org.apache.hadoop.", "org.rocksdb.",
                    "org.apache.spark.shuffle.");

    private final String pipeline;
    private final CollectionAccumulator<RecordPosition> positions = new CollectionAccumulator<>();

    SuspectRecords(String pipeline) {
        this.pipeline = pipeline;
    }

    static SuspectRecords of(String pipeline, SparkContext context) {
        SuspectRecords suspects = new SuspectRecords(pipeline);
        FailedTaskValues.register(suspects.positions, context, "eagre-suspects");
        return suspects.retain();
    }

    /** Retains this instance for {@link #all}; the oldest is removed. */
    SuspectRecords retain() {
        synchronized (RETAINED) {
            if (RETAINED.size() == MAX_RETAINED) RETAINED.remove();
            RETAINED.add(this);
        }
        return this;
    }

    /** Records that a task failed while a record was in work, unless the failure has another cause. */
    void failed(RecordPosition inWork, Throwable error) {
        RecordPosition culprit = culprit(inWork, error);
        if (culprit != null) positions.add(culprit);
    }

    /**
     * The record that may have caused the error; null for an outage, a kill, or the policy "fail". A database reports
     * the error of a write while the task processes a later row, which has nothing to do with it.
     */
    static RecordPosition culprit(RecordPosition inWork, Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            String type = cause.getClass().getName();
            String text = String.valueOf(cause.getMessage());
            if (cause instanceof FailureOfEarlierRow earlier) return earlier.culprit();
            if (cause instanceof TaskKilledException || cause instanceof InterruptedException) return null;
            if (INFRASTRUCTURE.stream().anyMatch(type::startsWith)) return null;
            if (EAGRE_ERRORS.stream().anyMatch(text::startsWith)) return null;
        }
        return inWork;
    }

    /** The suspects: topic, partition, offset; oldest first. */
    List<String[]> positions() {
        return positions.value().stream()
                .map(at -> new String[] {at.topic(), String.valueOf(at.partition()), String.valueOf(at.offset())})
                .toList();
    }

    /** The suspects of this session's latest queries: pipeline, topic, partition, offset; oldest first. */
    public static List<String[]> all() {
        List<String[]> positions = new ArrayList<>();
        synchronized (RETAINED) {
            for (SuspectRecords suspects : RETAINED) {
                for (String[] at : suspects.positions()) {
                    positions.add(new String[] {suspects.pipeline, at[0], at[1], at[2]});
                }
            }
        }
        return positions;
    }
}
