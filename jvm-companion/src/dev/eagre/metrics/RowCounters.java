package dev.eagre.metrics;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.eagre.spark.PerRun;
import dev.eagre.spark.StreamingRun;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/** Counts rows of this JVM that failed, arrived too late or were written, by run, pipeline and outcome. */
public final class RowCounters {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Counts of runs that are no longer retained: a sum must not decrease. */
    private static final Map<String, LongAdder> EARLIER = new ConcurrentHashMap<>();

    private static final PerRun<Map<String, LongAdder>> COUNTS = new PerRun<>(
            ConcurrentHashMap::new,
            counts -> counts.forEach((name, count) -> add(EARLIER, name, count.sum())));

    private RowCounters() {}

    /** Counts a row of the current task's run. */
    public static void add(String pipeline, String outcome) {
        add(StreamingRun.current(), pipeline, outcome, 1);
    }

    /** Counts rows of a run. */
    public static void add(String run, String pipeline, String outcome, int rows) {
        add(COUNTS.of(run), pipeline + "/" + outcome, rows);
    }

    private static void add(Map<String, LongAdder> counts, String name, long rows) {
        counts.computeIfAbsent(name, key -> new LongAdder()).add(rows);
    }

    /**
     * The counts by "run:pipeline/outcome", as JSON. Iterating over a Java collection from Python ends with an exception,
     * and PySpark makes the JVM search all jars to identify its class.
     */
    public static String all() throws JsonProcessingException {
        Map<String, Long> all = new TreeMap<>();
        EARLIER.forEach((name, count) -> all.put(name, count.sum()));
        COUNTS.all().forEach((run, counts) -> counts.forEach(
                (name, count) -> all.merge(StreamingRun.qualified(run, name), count.sum(), Long::sum)));
        return JSON.writeValueAsString(all);
    }
}
