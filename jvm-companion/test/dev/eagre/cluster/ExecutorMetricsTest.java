package dev.eagre.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.junit.jupiter.api.Test;

class ExecutorMetricsTest {
    private final ExecutorMetrics metrics = new ExecutorMetrics();

    private static ObjectNode json(String text) throws Exception {
        return (ObjectNode) Executors.JSON.readTree(text.replace('\'', '"'));
    }

    private static ObjectNode driver() throws Exception {
        return json("{'pauses': 1, 'paused_ms': 10, 'longest_pause_ms': 2, 'heap_mb': 100, 'lag': {},"
                + " 'consumed': 0, 'waits': {}}");
    }

    private static ObjectNode report(int pauses, int longest, String partition, int waited) throws Exception {
        String jvm = "{'pauses': %d, 'paused_ms': 5, 'longest_pause_ms': %d, 'heap_mb': 50, 'lag': {'%s': 7},"
                + " 'consumed': 3, 'waits': {'%s': [3, %d, %d]}}";
        return json("{'jvm': " + jvm.formatted(pauses, longest, partition, partition, waited, waited)
                + ", 'rows': {'p/late': 2}}");
    }

    @Test
    void withoutExecutorsTheReportIsTheDrivers() throws Exception {
        assertEquals(driver(), metrics.addTo(driver()));
    }

    @Test
    void executorsAddUp() throws Exception {
        metrics.report("0", report(2, 4, "in/0", 30));
        metrics.report("1", report(3, 9, "in/1", 40));
        JsonNode all = metrics.addTo(driver());
        assertEquals(6, all.get("pauses").asInt());
        assertEquals(9, all.get("longest_pause_ms").asInt());
        assertEquals(200, all.get("heap_mb").asInt());
        assertEquals(json("{'in/0': 7, 'in/1': 7}").toString(), all.get("lag").toString());
        assertEquals(6, all.get("consumed").asInt());
        assertEquals(json("{'in/0': [3, 30, 30], 'in/1': [3, 40, 40]}").toString(), all.get("waits").toString());
        assertEquals(3, all.get("executors").get("1").get("pauses").asInt());
        assertEquals(1, all.get("executors").get("driver").get("pauses").asInt());
        assertEquals(json("{'p/late': 5}").toString(), metrics.addRowsTo(json("{'p/late': 1}")).toString());
    }

    @Test
    void theLongestIsRememberedUntilItIsRead() throws Exception {
        metrics.report("0", report(1, 9, "in/0", 40));
        metrics.report("0", report(2, 1, "in/0", 5));
        JsonNode first = metrics.addTo(driver());
        assertEquals(9, first.get("longest_pause_ms").asInt());
        assertEquals(40, first.get("waits").get("in/0").get(2).asInt());
        JsonNode second = metrics.addTo(driver());
        assertEquals(2, second.get("longest_pause_ms").asInt());
        assertEquals(0, second.get("waits").get("in/0").get(2).asInt());
    }

    @Test
    void theLagIsThatOfTheExecutorThatReads() throws Exception {
        ObjectNode reads = report(0, 0, "in/0", 0);
        reads.putArray("reading").add("in/0");
        metrics.report("0", reads);
        ObjectNode stale = report(0, 0, "in/0", 0);
        stale.withObject("/jvm/lag").put("in/0", 5_000);
        metrics.report("1", stale);
        assertEquals(7, metrics.addTo(driver()).get("lag").get("in/0").asInt());
    }

    @Test
    void countersOfALostExecutorStay() throws Exception {
        metrics.report("0", report(2, 4, "in/0", 30));
        metrics.remove("0");
        metrics.report("1", report(1, 1, "in/0", 10));
        JsonNode all = metrics.addTo(driver());
        assertEquals(4, all.get("pauses").asInt());
        assertEquals(150, all.get("heap_mb").asInt(), "its heap is gone");
        assertEquals(6, all.get("waits").get("in/0").get(0).asInt());
        assertFalse(all.get("executors").has("0"));
        assertEquals(json("{'p/late': 4}").toString(), metrics.addRowsTo(json("{}")).toString());
    }
}
