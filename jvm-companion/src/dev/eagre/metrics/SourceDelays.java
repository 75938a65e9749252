package dev.eagre.metrics;

import dev.eagre.spark.PerRun;
import dev.eagre.spark.StreamingRun;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * How long records had waited when this JVM read them, by run, topic and partition: from their timestamp to the
 * moment a task reads them.
 */
public final class SourceDelays {
    private static final PerRun<Map<String, SourceDelays>> RUNS = new PerRun<>(ConcurrentHashMap::new);

    private final LongAdder records = new LongAdder();
    private final LongAdder sumMs = new LongAdder();
    private final AtomicLong longestMs = new AtomicLong();

    private SourceDelays() {}

    /** The delays of a partition in the run of the current task. */
    public static SourceDelays of(UTF8String topic, int partition) {
        return RUNS.of(StreamingRun.current()).computeIfAbsent(topic + "/" + partition, at -> new SourceDelays());
    }

    public void read(long timestampMicros) {
        long waited = Math.max(0, System.currentTimeMillis() - timestampMicros / 1000);
        records.increment();
        sumMs.add(waited);
        if (waited > longestMs.get()) longestMs.accumulateAndGet(waited, Math::max);
    }

    /**
     * By "run:topic/partition" the number of records, their total wait in milliseconds, and the longest wait since the
     * last call; of one run, or of all if it is null.
     */
    public static Map<String, long[]> all(String run) {
        Map<String, long[]> all = new HashMap<>();
        RUNS.all().forEach((id, partitions) -> {
            if (run != null && !run.equals(id)) return;
            partitions.forEach((at, delays) -> all.put(
                    StreamingRun.qualified(id, at),
                    new long[] {delays.records.sum(), delays.sumMs.sum(), delays.longestMs.getAndSet(0)}));
        });
        return all;
    }
}
