package dev.eagre.metrics;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * How long the records that this JVM reads had waited, by topic and partition: from the time they
 * carry to the moment a task takes them.
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

    public void took(long timestampMicros) {
        long waited = Math.max(0, System.currentTimeMillis() - timestampMicros / 1000);
        records.increment();
        sumMs.add(waited);
        if (waited > longestMs.get()) longestMs.accumulateAndGet(waited, Math::max);
    }

    /** Records, milliseconds waited together, and the longest wait since the last question. */
    public static Map<String, long[]> all() {
        Map<String, long[]> told = new HashMap<>();
        ALL.forEach((at, one) -> told.put(
                at, new long[] {one.records.sum(), one.sumMs.sum(), one.longestMs.getAndSet(0)}));
        return told;
    }
}
