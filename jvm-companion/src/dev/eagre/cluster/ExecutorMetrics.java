package dev.eagre.cluster;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * What executors count, added up as if they were one JVM. Counters of an executor that is gone stay, because a counter
 * must not decrease.
 */
final class ExecutorMetrics {
    private static final String LONGEST = "longest_pause_ms";

    /** Counters that add up; the others are gauges of executors that are alive. */
    private static final String[] COUNTERS = {"pauses", "paused_ms", "consumed"};

    private final Map<String, ObjectNode> reports = new LinkedHashMap<>();
    private final ObjectNode gone = Executors.JSON.createObjectNode();
    private final ObjectNode goneRows = Executors.JSON.createObjectNode();

    /**
     * Takes the newest report of an executor: {@code jvm} as from JvmMetrics, {@code rows} as from RowCounters, and the
     * partitions that its tasks are {@code reading}.
     */
    synchronized void report(String executor, ObjectNode report) {
        ObjectNode before = reports.put(executor, report);
        if (before == null) return;
        keepLongest(jvm(before), jvm(report));
    }

    /** Until somebody asks, the longest of the values that are reset with each report. */
    private static void keepLongest(ObjectNode before, ObjectNode now) {
        now.put(LONGEST, Math.max(before.path(LONGEST).asLong(), now.path(LONGEST).asLong()));
        before.path("waits").properties().forEach(wait -> {
            if (now.path("waits").path(wait.getKey()) instanceof ArrayNode values) {
                values.set(2, Math.max(values.get(2).asLong(), wait.getValue().get(2).asLong()));
            }
        });
    }

    /** Forgets an executor, but not what it has counted. */
    synchronized void remove(String executor) {
        ObjectNode last = reports.remove(executor);
        if (last == null) return;
        for (String counter : COUNTERS) add(gone, counter, jvm(last).path(counter).asLong());
        addWaits(gone.withObject("/waits"), jvm(last).path("waits"));
        addAll(goneRows, last.path("rows"));
    }

    /** Adds the executors to the driver's own report; they stand below {@code executors}, too. */
    synchronized ObjectNode addTo(ObjectNode driver) {
        if (reports.isEmpty() && gone.isEmpty()) return driver;
        ObjectNode each = Executors.JSON.createObjectNode();
        each.set("driver", counters(driver));
        for (String counter : COUNTERS) add(driver, counter, gone.path(counter).asLong());
        addWaits(driver.withObject("/waits"), gone.path("waits"));
        reports.forEach((executor, report) -> {
            ObjectNode jvm = jvm(report);
            each.set(executor, counters(jvm));
            for (String counter : COUNTERS) add(driver, counter, jvm.path(counter).asLong());
            add(driver, "heap_mb", jvm.path("heap_mb").asLong());
            driver.put(LONGEST, Math.max(driver.path(LONGEST).asLong(), jvm.path(LONGEST).asLong()));
            addWaits(driver.withObject("/waits"), jvm.path("waits"));
            forgetLongest(jvm);
        });
        addLag(driver.withObject("/lag"));
        driver.set("executors", each);
        return driver;
    }

    /** An idle consumer of an earlier task keeps its last lag: that of the executor that reads the partition counts. */
    private void addLag(ObjectNode lags) {
        for (boolean reads : new boolean[] {false, true}) {
            for (ObjectNode report : reports.values()) {
                Set<String> reading = new HashSet<>();
                report.path("reading").forEach(partition -> reading.add(partition.asText()));
                jvm(report).path("lag").properties().forEach(lag -> {
                    if (reading.contains(lag.getKey()) == reads) lags.set(lag.getKey(), lag.getValue());
                });
            }
        }
    }

    /** Adds the executors' counts of rows to those of the driver. */
    synchronized ObjectNode addRowsTo(ObjectNode driver) {
        addAll(driver, goneRows);
        reports.values().forEach(report -> addAll(driver, report.path("rows")));
        return driver;
    }

    private static ObjectNode jvm(ObjectNode report) {
        return report.withObject("/jvm");
    }

    private static ObjectNode counters(ObjectNode jvm) {
        return jvm.deepCopy().retain("pauses", "paused_ms", LONGEST, "heap_mb");
    }

    private static void forgetLongest(ObjectNode jvm) {
        jvm.put(LONGEST, 0);
        jvm.path("waits").forEach(values -> ((ArrayNode) values).set(2, 0L));
    }

    private static void add(ObjectNode sums, String name, long value) {
        sums.put(name, sums.path(name).asLong() + value);
    }

    private static void addAll(ObjectNode sums, JsonNode counts) {
        counts.properties().forEach(count -> add(sums, count.getKey(), count.getValue().asLong()));
    }

    /** Adds the number and the time of waits, by partition; of the longest the maximum. */
    private static void addWaits(ObjectNode sums, JsonNode waits) {
        waits.properties().forEach(wait -> {
            if (!(sums.path(wait.getKey()) instanceof ArrayNode sum)) {
                sums.set(wait.getKey(), wait.getValue().deepCopy());
                return;
            }
            for (int i = 0; i < 2; i++) sum.set(i, sum.get(i).asLong() + wait.getValue().get(i).asLong());
            sum.set(2, Math.max(sum.get(2).asLong(), wait.getValue().get(2).asLong()));
        });
    }
}
