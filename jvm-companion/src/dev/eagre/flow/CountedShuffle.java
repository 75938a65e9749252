package dev.eagre.flow;

import java.io.IOException;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.streaming.StreamingShuffleManager;
import scala.Option;
import scala.Product2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** Spark's streaming shuffle, with its rows counted at both ends. */
public class CountedShuffle extends StreamingShuffleManager {
    private static volatile boolean inUse;

    public CountedShuffle() {
        inUse = true;
    }

    /** Whether the shuffles of this JVM are counted. */
    public static boolean inUse() {
        return inUse;
    }

    @Override
    public final <K, V> ShuffleWriter<K, V> getWriter(
            ShuffleHandle handle, long mapId, TaskContext task, ShuffleWriteMetricsReporter metrics) {
        return new Writer<>(this.<K, V>writer(handle, mapId, task, metrics), Flow.leaving(task));
    }

    @Override
    public final <K, C> ShuffleReader<K, C> getReader(
            ShuffleHandle handle, int startMap, int endMap, int start, int end, TaskContext task,
            ShuffleReadMetricsReporter metrics) {
        ShuffleReader<K, C> reader = reader(handle, startMap, endMap, start, end, task, metrics);
        Flow.Arrivals arrivals = Flow.arriving(task);
        return () -> new Arriving<>(reader.read(), arrivals);
    }

    /** What rows leave through. */
    <K, V> ShuffleWriter<K, V> writer(
            ShuffleHandle handle, long mapId, TaskContext task, ShuffleWriteMetricsReporter metrics) {
        return super.getWriter(handle, mapId, task, metrics);
    }

    /** What they arrive through. */
    <K, C> ShuffleReader<K, C> reader(
            ShuffleHandle handle, int startMap, int endMap, int start, int end, TaskContext task,
            ShuffleReadMetricsReporter metrics) {
        return super.getReader(handle, startMap, endMap, start, end, task, metrics);
    }

    private static final class Writer<K, V> extends ShuffleWriter<K, V> {
        private final ShuffleWriter<K, V> writer;
        private final Flow.Count leaving;

        Writer(ShuffleWriter<K, V> writer, Flow.Count leaving) {
            this.writer = writer;
            this.leaving = leaving;
        }

        @Override
        public void write(Iterator<Product2<K, V>> rows) throws IOException {
            writer.write(new AbstractIterator<>() {
                @Override
                public boolean hasNext() {
                    return rows.hasNext();
                }

                @Override
                public Product2<K, V> next() {
                    Product2<K, V> row = rows.next();
                    leaving.one();
                    return row;
                }
            });
        }

        @Override
        public Option<MapStatus> stop(boolean success) {
            return writer.stop(success);
        }

        @Override
        public long[] getPartitionLengths() {
            return writer.getPartitionLengths();
        }
    }

    private static final class Arriving<R> extends AbstractIterator<R> {
        private final Iterator<R> rows;
        private final Flow.Arrivals arrivals;
        private boolean there;

        Arriving(Iterator<R> rows, Flow.Arrivals arrivals) {
            this.rows = rows;
            this.arrivals = arrivals;
        }

        @Override
        public boolean hasNext() {
            if (there) return true;
            arrivals.waits(true);
            there = rows.hasNext();
            if (there) arrivals.waits(false);
            return there;
        }

        @Override
        public R next() {
            if (!hasNext()) throw new java.util.NoSuchElementException();
            there = false;
            arrivals.one();
            return rows.next();
        }
    }
}
