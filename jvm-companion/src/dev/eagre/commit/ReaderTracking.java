package dev.eagre.commit;

import dev.eagre.spark.PhysicalRule;
import dev.eagre.spark.PlanTree;
import dev.eagre.spark.PrivateMember;
import dev.eagre.spark.SparkInternals;
import java.io.IOException;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec;

/**
 * Lets the readers of Spark's real-time scans say when they wait for a record: all records before it are then
 * processed. Spark keeps a scan's readers in a private field.
 */
public final class ReaderTracking {
    private ReaderTracking() {}

    /** Tracks the real-time scans of every plan. */
    public static void inject(SparkSessionExtensions extensions) {
        PhysicalRule.inject(extensions, plan -> {
            if (PrivateMember.SCAN_READERS.available()) track(plan);
            return plan;
        });
    }

    private static void track(SparkPlan plan) {
        for (SparkPlan leaf : PlanTree.<SparkPlan>list(plan.collectLeaves())) {
            if (leaf instanceof RealTimeStreamScanExec scan && !(scan.readerFactory() instanceof Readers)) {
                SparkInternals.replaceReaders(scan, new Readers(scan.readerFactory()));
            }
        }
    }

    private record Readers(PartitionReaderFactory factory) implements PartitionReaderFactory {
        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            PartitionReader<InternalRow> reader = factory.createReader(partition);
            return reader instanceof SupportsRealTimeRead<InternalRow> realTime ? new Reader(realTime) : reader;
        }
    }

    private static final class Reader implements SupportsRealTimeRead<InternalRow> {
        private final SupportsRealTimeRead<InternalRow> reader;
        private final InFlightOffsets task;

        Reader(SupportsRealTimeRead<InternalRow> reader) {
            this.reader = reader;
            task = InFlightOffsets.beginRealTime();
        }

        @Override
        public RecordStatus nextWithTimeout(Long startTime, Long timeout) throws IOException {
            if (task == null) return reader.nextWithTimeout(startTime, timeout);
            task.setReading(true);
            try {
                return reader.nextWithTimeout(startTime, timeout);
            } finally {
                task.setReading(false);
            }
        }

        @Override
        public boolean next() throws IOException {
            return reader.next();
        }

        @Override
        public InternalRow get() {
            return reader.get();
        }

        @Override
        public PartitionOffset getOffset() {
            return reader.getOffset();
        }

        @Override
        public CustomTaskMetric[] currentMetricsValues() {
            return reader.currentMetricsValues();
        }

        @Override
        public void close() throws IOException {
            reader.close();
        }
    }
}
