package dev.eagre.metrics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.eagre.spark.StreamingRun;
import dev.eagre.spark.Tasks;
import java.util.UUID;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

/** Two queries in one JVM, of the same pipeline and topic. */
class CountersPerRunTest {
    private final UUID first = UUID.randomUUID();
    private final UUID second = UUID.randomUUID();

    private static long counted(UUID run, String name) throws Exception {
        JsonNode counts = new ObjectMapper().readTree(RowCounters.all());
        return counts.path(StreamingRun.qualified(run.toString(), name)).asLong();
    }

    private static void count(UUID run) {
        Tasks.in(Tasks.task(run), () -> {
            RowCounters.add("per-run", "late");
            return null;
        });
    }

    @Test
    void rowsAreCountedForTheirRun() throws Exception {
        count(first);
        count(first);
        count(second);
        assertEquals(2, counted(first, "per-run/late"));
        assertEquals(1, counted(second, "per-run/late"));
    }

    /** Counters of executors are added up, and must not decrease. */
    @Test
    void countsOfForgottenRunsStayInTheSum() throws Exception {
        RowCounters.add(first.toString(), "sum", "late", 3);
        for (int i = 0; i < 200; i++) RowCounters.add(UUID.randomUUID().toString(), "sum", "late", 1);
        assertEquals(0, counted(first, "sum/late"));
        JsonNode counts = new ObjectMapper().readTree(RowCounters.all());
        long sum = counts.properties().stream()
                .filter(count -> count.getKey().endsWith("sum/late"))
                .mapToLong(count -> count.getValue().asLong())
                .sum();
        assertEquals(203, sum);
    }

    private static void read(UUID run, long agoMs) {
        Tasks.in(Tasks.task(run), () -> {
            SourceDelays.of(UTF8String.fromString("per-run"), 0).read((System.currentTimeMillis() - agoMs) * 1000);
            return null;
        });
    }

    private static long[] delays(UUID run) {
        return SourceDelays.all(run.toString()).get(StreamingRun.qualified(run.toString(), "per-run/0"));
    }

    @Test
    void delaysBelongToTheirRun() {
        read(first, 60_000);
        read(second, 0);
        assertEquals(1, delays(second)[0]);
        assertTrue(delays(second)[1] < 60_000, "those of the other query");
        assertTrue(delays(first)[2] >= 60_000, "the longest, although another query was asked for");
        assertEquals(0, delays(first)[2], "since the last call");
    }
}
