package dev.eagre.metrics;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * How long records had waited when this JVM read them, by topic and partition: from their timestamp to the
 * moment a task reads them.
 */
public final class SourceDelays {
    private static final Map<String, SourceDelays> ALL = new ConcurrentHashMap<>();

    private final LongAdder records = new LongAdder();
    private final LongAdder sumMs = new LongAdder();
    private final AtomicLong longestMs = new AtomicLong();

    private SourceDelays() {}

    public static SourceDelays of(UTF8String topic, int partition) {
        return ALL.computeIfAbsent(topic + "/" + partition, at -> new SourceDelays());
    }

    public void read(long timestampMicros) {
        long waited = Math.max(0, System.currentTimeMillis() - timestampMicros / 1000);
        records.increment();
        sumMs.add(waited);
        if (waited > longestMs.get()) longestMs.accumulateAndGet(waited, Math::max);
    }

    /** The number of records, their total wait in milliseconds, and the longest wait since the last call. */
    public static Map<String, long[]> all() {
        Map<String, long[]> all = new HashMap<>();
        ALL.forEach((at, delays) -> all.put(
                at, new long[] {delays.records.sum(), delays.sumMs.sum(), delays.longestMs.getAndSet(0)}));
        return all;
    }
}
