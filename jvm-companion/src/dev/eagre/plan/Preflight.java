package dev.eagre.plan;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.eagre.spark.PlanTree;
import dev.eagre.spark.StreamWriterFields;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.streaming.DataStreamWriter;

/**
 * Plans a streaming write as a real-time query without starting it, and describes the plan. Nothing is
 * read from a source, and nothing is written to a sink or checkpoint.
 *
 * <p>Written against the private planning classes of Spark 4.3.0, as are its parts: {@link
 * StreamWriterFields}, {@link RealTimePlan}, {@link LogicalFacts}, {@link ExpressionFacts}, {@link KeySample}
 * and {@link PlanTree}. A contract test compares the verdict with real starts.
 */
public final class Preflight {
    private Preflight() {}

    /** Records the line of the user's file that created the newest operators of a DataFrame. */
    public static void mark(Dataset<?> rows, String where) {
        for (LogicalPlan node : PlanTree.nodes(rows.queryExecution().analyzed())) {
            if (node.getTagValue(PlanTree.LINE).isEmpty()) {
                node.setTagValue(PlanTree.LINE, where);
            }
        }
    }

    /**
     * Describes a prepared write as JSON.
     *
     * @param partitions the number of shuffle partitions that the checkpoint requires, or 0
     */
    public static String describe(DataStreamWriter<?> writer, long epochMs, int partitions)
            throws IOException {
        StreamWriterFields write = new StreamWriterFields(writer);
        Map<String, Object> facts = new LinkedHashMap<>();
        write.describe(facts);
        new RealTimePlan(write, epochMs, partitions).describe(facts);
        facts.put("jvm", jvm());
        return new ObjectMapper().writeValueAsString(facts);
    }

    /**
     * Counts the keys of each stateful operator over a sample of its sources.
     *
     * @param ranges the range of offsets to read for each source, in order, as JSON
     */
    public static String keys(DataStreamWriter<?> writer, String ranges) throws IOException {
        var json = new ObjectMapper();
        var counts = new KeySample(new StreamWriterFields(writer), json.readTree(ranges)).count();
        return json.writeValueAsString(counts);
    }

    private static Map<String, Object> jvm() {
        List<String> collectors = new ArrayList<>();
        ManagementFactory.getGarbageCollectorMXBeans().forEach(b -> collectors.add(b.getName()));
        return Map.of(
                "collectors", collectors,
                "heap_mb", Runtime.getRuntime().maxMemory() >> 20,
                "java", Runtime.version().feature(),
                "kafka_clients", kafkaClients());
    }

    /** The version of the Kafka clients that come with Spark's connector. */
    private static String kafkaClients() {
        try {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            Class<?> parser = Class.forName(
                    "org.apache.kafka.common.utils.AppInfoParser", true, loader);
            return String.valueOf(parser.getMethod("getVersion").invoke(null));
        } catch (ReflectiveOperationException e) {
            return "";
        }
    }
}
