package dev.eagre.deadletter;

import dev.eagre.commit.RecordPosition;
import java.io.Serializable;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.util.CollectionAccumulator;
import scala.Option;

/**
 * Rows that tasks of a query failed at. They come to the driver in an accumulator: Spark's public ones
 * forget what failed tasks added, one registered as Spark registers its own does not.
 */
public final class SuspectRecords implements Serializable {
    private static final Deque<SuspectRecords> RETAINED = new ArrayDeque<>();
    private static final int MAX_RETAINED = 100;

    private static final List<String> OWN_ERRORS =
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
        suspects.positions.register(context, Option.apply("eagre-suspects"), true);
        return suspects.retained();
    }

    /** Among those of which the driver can be asked; the oldest make room. */
    SuspectRecords retained() {
        synchronized (RETAINED) {
            if (RETAINED.size() == MAX_RETAINED) RETAINED.remove();
            RETAINED.add(this);
        }
        return this;
    }

    /** A task failed at a record; it is suspect unless the failure has nothing to do with it. */
    void failed(RecordPosition record, Throwable error) {
        if (causedByRow(error)) positions.add(record);
    }

    /** Whether the row may have caused it: not an outage, not a kill, and not what the user asked for. */
    private static boolean causedByRow(Throwable error) {
        for (Throwable one = error; one != null; one = one.getCause()) {
            String type = one.getClass().getName();
            String text = String.valueOf(one.getMessage());
            if (one instanceof TaskKilledException || one instanceof InterruptedException) return false;
            if (INFRASTRUCTURE.stream().anyMatch(type::startsWith)) return false;
            if (OWN_ERRORS.stream().anyMatch(text::startsWith)) return false;
        }
        return true;
    }

    /** Those of this session's latest queries: pipeline, topic, partition, offset; oldest first. */
    public static List<String[]> all() {
        List<String[]> found = new ArrayList<>();
        synchronized (RETAINED) {
            for (SuspectRecords one : RETAINED) {
                for (RecordPosition at : one.positions.value()) {
                    found.add(new String[] {
                        one.pipeline, at.topic(), String.valueOf(at.partition()), String.valueOf(at.offset())
                    });
                }
            }
        }
        return found;
    }
}
