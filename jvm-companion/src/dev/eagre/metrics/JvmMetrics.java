package dev.eagre.metrics;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.management.GarbageCollectionNotificationInfo;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.JMException;
import javax.management.NotificationEmitter;
import javax.management.openmbean.CompositeData;

/** Metrics of this JVM in one call per second, because each call takes CPU time from the stream. */
public final class JvmMetrics {
    private static final AtomicLong PAUSES = new AtomicLong();
    private static final AtomicLong PAUSED_MS = new AtomicLong();
    private static final AtomicLong LONGEST_MS = new AtomicLong();

    static {
        ManagementFactory.getGarbageCollectorMXBeans().forEach(JvmMetrics::listen);
    }

    private JvmMetrics() {}

    /** GC pauses, heap, lag by partition, and waits by partition of one run, or of all if it is null, as JSON. */
    public static String report(String run) throws JMException, JsonProcessingException {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("pauses", PAUSES.get());
        facts.put("paused_ms", PAUSED_MS.get());
        facts.put("longest_pause_ms", LONGEST_MS.getAndSet(0));
        facts.put("heap_mb", ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed() >> 20);
        facts.put("lag", ConsumerLag.lag());
        facts.put("consumed", ConsumerLag.consumed());
        facts.put("waits", SourceDelays.all(run));
        return new ObjectMapper().writeValueAsString(facts);
    }

    /** Concurrent GC phases run beside the program and are not pauses. */
    private static void listen(GarbageCollectorMXBean gc) {
        String name = gc.getName();
        if (name.contains("Cycles") || name.contains("Concurrent")) return;
        ((NotificationEmitter) gc).addNotificationListener(
                (notice, handback) -> {
                    if (!GarbageCollectionNotificationInfo.GARBAGE_COLLECTION_NOTIFICATION.equals(notice.getType())) {
                        return;
                    }
                    long ms = GarbageCollectionNotificationInfo.from((CompositeData) notice.getUserData())
                            .getGcInfo()
                            .getDuration();
                    PAUSES.incrementAndGet();
                    PAUSED_MS.addAndGet(ms);
                    LONGEST_MS.accumulateAndGet(ms, Math::max);
                },
                null,
                null);
    }
}
