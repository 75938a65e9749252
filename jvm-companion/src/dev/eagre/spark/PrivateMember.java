package dev.eagre.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import scala.Option;

/**
 * The private members of Spark 4.3, its Kafka connector and Hadoop that Eagre reads or calls. Each is probed before it
 * is used. If one is missing, its feature is disabled and plain Spark does the work. Only this package uses them.
 *
 * <p>The system property {@code eagre.disable} is a comma-separated list of members to treat as missing.
 */
public enum PrivateMember {
    /** The public API has setters only; the check reads the values. */
    STREAM_WRITER(
            "org.apache.spark.sql.classic.DataStreamWriter",
            "the check before a start",
            "ds", "source", "outputMode", "trigger", "foreachWriter", "extraOptions"),
    /** A session's analyzer and optimizer, which the plan cache replaces. */
    SESSION_PLANNER("org.apache.spark.sql.internal.SessionState", "the plan cache", "analyzer", "optimizer"),
    /** The state stores that are loaded in this JVM. */
    STATE_STORES(
            "org.apache.spark.sql.execution.streaming.state.StateStore$", "mid-epoch commits with state", "loadedProviders"),
    /** The iterator of an aggregate, which buffers keys until the epoch boundary. */
    AGGREGATE_ITERATOR("org.apache.spark.util.CompletionIterator", "mid-epoch commits of aggregates", "iter") {
        @Override
        void probe() throws ReflectiveOperationException {
            super.probe();
            AggregateIterator.probe();
        }
    },
    /** The producers of Spark's Kafka sink, which a commit flushes. */
    PRODUCER_POOL(
            "org.apache.spark.sql.kafka010.producer.InternalKafkaProducerPool$", "mid-epoch commits", "pool") {
        @Override
        void probe() throws ReflectiveOperationException {
            super.probe();
            String producers = "org.apache.spark.sql.kafka010.producer.";
            load(producers + "InternalKafkaProducerPool").getMethod("getAsMap");
            load(producers + "InternalKafkaProducerPool$CachedProducerEntry").getMethod("producer");
            load(producers + "CachedKafkaProducer").getMethod("producer");
        }
    },
    /** The readers of a real-time scan, which a commit asks for their positions. */
    SCAN_READERS(
            "org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec", "mid-epoch commits", "readerFactory"),
    /** How an accumulator is registered that keeps what failed tasks have added, as Spark's internal ones do. */
    FAILED_TASK_VALUES("org.apache.spark.util.AccumulatorV2", "skipping records that crash their task") {
        @Override
        void probe() throws ReflectiveOperationException {
            load("org.apache.spark.util.AccumulatorV2")
                    .getMethod("register", SparkContext.class, Option.class, boolean.class);
        }
    },
    /** The source of each Hadoop setting, which is sent to the tasks of every epoch with state. */
    SETTING_SOURCES("org.apache.hadoop.conf.Configuration", "smaller tasks", "updatingResource");

    private static final String DISABLED = "eagre.disable";

    private final String owner;
    private final String feature;
    private final List<String> fields;

    PrivateMember(String owner, String feature, String... fields) {
        this.owner = owner;
        this.feature = feature;
        this.fields = List.of(fields);
    }

    /** Whether the member exists. */
    public boolean available() {
        return problem().isEmpty();
    }

    /**
     * The value of a field.
     *
     * @param target the object; ignored for a static field
     * @throws IllegalStateException if it is missing; check {@link #available} first
     */
    Object read(String field, Object target) {
        try {
            return field(field).get(target);
        } catch (ReflectiveOperationException | RuntimeException error) {
            throw new IllegalStateException("SPARK_MEMBER_MISSING: " + owner + "." + field + ": " + error, error);
        }
    }

    /** The single instance of a Scala object. */
    Object module() {
        try {
            return type().getField("MODULE$").get(null);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("SPARK_MEMBER_MISSING: " + owner, error);
        }
    }

    /** Sets the value of a field. */
    void write(String field, Object target, Object value) {
        try {
            field(field).set(target, value);
        } catch (ReflectiveOperationException | RuntimeException error) {
            throw new IllegalStateException("SPARK_MEMBER_MISSING: " + owner + "." + field + ": " + error, error);
        }
    }

    private Field field(String name) throws ReflectiveOperationException {
        Field field = Arrays.stream(type().getDeclaredFields())
                .filter(candidate -> candidate.getName().equals(name) || candidate.getName().endsWith("$$" + name))
                .findFirst()
                .orElseThrow(() -> new NoSuchFieldException(name));
        field.setAccessible(true);
        return field;
    }

    private Class<?> type() throws ClassNotFoundException {
        return load(owner);
    }

    static Class<?> load(String name) throws ClassNotFoundException {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        return Class.forName(name, true, loader == null ? PrivateMember.class.getClassLoader() : loader);
    }

    /** Looks for everything that the feature reads or calls; throws if something is missing. */
    void probe() throws ReflectiveOperationException {
        for (String name : fields) field(name);
    }

    /** Describes what is missing; empty if nothing is. */
    private String problem() {
        if (List.of(System.getProperty(DISABLED, "").split(",")).contains(name())) return "disabled by " + DISABLED;
        try {
            probe();
            return "";
        } catch (ReflectiveOperationException | RuntimeException | LinkageError error) {
            return owner + ": " + error;
        }
    }

    /** Every member with its feature and its problem, as JSON. */
    public static String report() throws JsonProcessingException {
        List<Map<String, String>> members = new ArrayList<>();
        for (PrivateMember member : values()) {
            Map<String, String> entry = new LinkedHashMap<>();
            entry.put("name", member.name());
            entry.put("feature", member.feature);
            entry.put("problem", member.problem());
            members.add(entry);
        }
        return new ObjectMapper().writeValueAsString(members);
    }

    /** Prints the report, for {@code eagre doctor}. */
    public static void main(String[] arguments) throws JsonProcessingException {
        System.out.println(report());
    }
}
