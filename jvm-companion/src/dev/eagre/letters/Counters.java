package dev.eagre.letters;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/** How many rows failed or came too late in this JVM, by pipeline and by what became of them. */
public final class Counters {
    private static final Map<String, LongAdder> COUNTS = new ConcurrentHashMap<>();

    private Counters() {}

    /** Counts a row. */
    public static void add(String pipeline, String fate) {
        COUNTS.computeIfAbsent(pipeline + "/" + fate, name -> new LongAdder()).increment();
    }

    /** The counts, by "pipeline/fate". */
    public static Map<String, Long> all() {
        Map<String, Long> counts = new TreeMap<>();
        COUNTS.forEach((name, count) -> counts.put(name, count.sum()));
        return counts;
    }
}
