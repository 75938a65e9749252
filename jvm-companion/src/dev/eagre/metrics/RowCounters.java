package dev.eagre.metrics;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/** How many rows failed or came too late in this JVM, by pipeline and by what became of them. */
public final class RowCounters {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, LongAdder> COUNTS = new ConcurrentHashMap<>();

    private RowCounters() {}

    /** Counts a row. */
    public static void add(String pipeline, String fate) {
        COUNTS.computeIfAbsent(pipeline + "/" + fate, name -> new LongAdder()).increment();
    }

    /**
     * The counts, by "pipeline/fate", as JSON: the end of a Java collection reaches Python as an exception, and
     * PySpark has the JVM look for classes in all jars to say which.
     */
    public static String all() throws JsonProcessingException {
        Map<String, Long> counts = new TreeMap<>();
        COUNTS.forEach((name, count) -> counts.put(name, count.sum()));
        return JSON.writeValueAsString(counts);
    }
}
