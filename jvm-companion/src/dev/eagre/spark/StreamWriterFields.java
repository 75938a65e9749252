package dev.eagre.spark;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.streaming.ContinuousTrigger;
import org.apache.spark.sql.execution.streaming.ProcessingTimeTrigger;
import org.apache.spark.sql.execution.streaming.RealTimeTrigger;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.Trigger;
import scala.jdk.javaapi.CollectionConverters;

/** The settings of a {@code DataStreamWriter}, which has no getters. */
public final class StreamWriterFields {
    public final Dataset<?> rows;
    public final OutputMode mode;
    public final Trigger trigger;

    private final Object writer;
    private final String format;

    public StreamWriterFields(DataStreamWriter<?> writer) {
        this.writer = writer;
        this.rows = (Dataset<?>) field("ds");
        this.format = (String) field("source");
        this.mode = (OutputMode) field("outputMode");
        this.trigger = (Trigger) field("trigger");
    }

    public void describe(Map<String, Object> facts) {
        Object foreach = field("foreachWriter");
        facts.put("format", format);
        facts.put("output_mode", mode.toString());
        facts.put("trigger", trigger.getClass().getSimpleName().replace("$", ""));
        facts.put("every_ms", interval());
        facts.put("foreach", foreach == null ? "" : foreach.getClass().getName());
        facts.put("options", new TreeMap<>(CollectionConverters.asJava(options())));
        Map<String, String> columns = new LinkedHashMap<>();
        for (var column : rows.schema().fields()) {
            columns.put(column.name(), column.dataType().simpleString());
        }
        facts.put("columns", columns);
    }

    public boolean realTime() {
        return trigger instanceof RealTimeTrigger || trigger instanceof ContinuousTrigger;
    }

    private long interval() {
        if (trigger instanceof RealTimeTrigger real) {
            return real.batchDurationMs();
        }
        if (trigger instanceof ProcessingTimeTrigger batch) {
            return batch.intervalMs();
        }
        return 0;
    }

    @SuppressWarnings("unchecked")
    private scala.collection.immutable.Map<String, String> options() {
        return ((CaseInsensitiveMap<String>) field("extraOptions")).originalMap();
    }

    private Object field(String name) {
        return PrivateMember.STREAM_WRITER.read(name, writer);
    }
}
