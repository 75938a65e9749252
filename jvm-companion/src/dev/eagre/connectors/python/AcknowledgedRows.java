package dev.eagre.connectors.python;

import dev.eagre.metrics.RowCounters;
import dev.eagre.spark.StreamingRun;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;

/** The end of a pipeline with a sink in Python: it counts the rows that the sink has acknowledged. */
public final class AcknowledgedRows extends ForeachWriter<Row> {
    private final String pipeline;
    private transient String run;

    public AcknowledgedRows(String pipeline) {
        this.pipeline = pipeline;
    }

    @Override
    public boolean open(long partition, long epoch) {
        run = StreamingRun.current();
        return true;
    }

    @Override
    public void process(Row row) {
        RowCounters.add(run, pipeline, "written", 1);
    }

    @Override
    public void close(Throwable error) {}
}
