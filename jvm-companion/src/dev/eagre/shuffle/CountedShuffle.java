package dev.eagre.shuffle;

import dev.eagre.commit.Barrier;
import dev.eagre.commit.ReceivedCount;
import dev.eagre.commit.RowCount;
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

/** Spark's streaming shuffle over the network. Both ends count the rows, because none may be in flight when state is written. */
public final class CountedShuffle extends StreamingShuffleManager {
    @Override
    public <K, V> ShuffleWriter<K, V> getWriter(
            ShuffleHandle handle, long mapId, TaskContext task, ShuffleWriteMetricsReporter metrics) {
        ShuffleWriter<K, V> writer = super.getWriter(handle, mapId, task, metrics);
        return new ShuffleWriter<>() {
            @Override
            public void write(Iterator<Product2<K, V>> rows) throws java.io.IOException {
                writer.write(new SentRows<>(rows, Barrier.sentOverNetworkBy(task)));
            }

            @Override
            public Option<MapStatus> stop(boolean success) {
                return writer.stop(success);
            }

            @Override
            public long[] getPartitionLengths() {
                return writer.getPartitionLengths();
            }
        };
    }

    @Override
    public <K, C> ShuffleReader<K, C> getReader(
            ShuffleHandle handle, int startMap, int endMap, int start, int end, TaskContext task,
            ShuffleReadMetricsReporter metrics) {
        ShuffleReader<K, C> reader = super.getReader(handle, startMap, endMap, start, end, task, metrics);
        return () -> new ReceivedRows<>(reader.read(), Barrier.receivedOverNetworkBy(task));
    }

    /** Counts a row before it is sent. */
    private static final class SentRows<T> extends AbstractIterator<T> {
        private final Iterator<T> rows;
        private final RowCount sent;

        SentRows(Iterator<T> rows, RowCount sent) {
            this.rows = rows;
            this.sent = sent;
        }

        @Override
        public boolean hasNext() {
            return rows.hasNext();
        }

        @Override
        public T next() {
            T row = rows.next();
            sent.increment();
            return row;
        }
    }

    /** Counts the rows that it returns; while it waits for the next one, all before are processed. */
    private static final class ReceivedRows<T> extends AbstractIterator<T> {
        private final Iterator<T> rows;
        private final ReceivedCount received;
        private boolean ready;

        ReceivedRows(Iterator<T> rows, ReceivedCount received) {
            this.rows = rows;
            this.received = received;
        }

        @Override
        public boolean hasNext() {
            if (ready) return true;
            received.setIdle(true);
            ready = rows.hasNext();
            if (ready) received.setIdle(false);
            return ready;
        }

        @Override
        public T next() {
            if (!hasNext()) throw new java.util.NoSuchElementException();
            ready = false;
            T row = rows.next();
            received.increment();
            return row;
        }
    }
}
