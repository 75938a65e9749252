package dev.eagre.metrics;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/** Counts rows of this JVM that failed, arrived too late or were written, by pipeline and outcome. */
public final class RowCounters {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, LongAdder> COUNTS = new ConcurrentHashMap<>();

    private RowCounters() {}

    /** Counts a row. */
    public static void add(String pipeline, String outcome) {
        add(pipeline, outcome, 1);
    }

    /** Counts rows. */
    public static void add(String pipeline, String outcome, int rows) {
        COUNTS.computeIfAbsent(pipeline + "/" + outcome, name -> new LongAdder()).add(rows);
    }

    /**
     * The counts by "pipeline/outcome", as JSON. Iterating over a Java collection from Python ends with an exception,
     * and PySpark makes the JVM search all jars to identify its class.
     */
    public static String all() throws JsonProcessingException {
        Map<String, Long> counts = new TreeMap<>();
        COUNTS.forEach((name, count) -> counts.put(name, count.sum()));
        return JSON.writeValueAsString(counts);
    }
}
