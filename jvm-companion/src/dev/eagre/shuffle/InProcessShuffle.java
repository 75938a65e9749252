package dev.eagre.shuffle;

import dev.eagre.commit.Barrier;
import dev.eagre.commit.RowCount;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.Partitioner;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus$;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.BaseShuffleHandle;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.streaming.StreamingShuffleManager;
import scala.Option;
import scala.Product2;
import scala.collection.Iterator;

/**
 * The in-process streaming shuffle, for tasks that are threads of one JVM. It passes a row by reference. Spark's own
 * shuffle serializes the row, sends it through a socket and deserializes it, and wakes four threads to do so. Both
 * ends count the rows, because none may be in flight when state is written.
 */
public final class InProcessShuffle extends StreamingShuffleManager {
    private final Map<Integer, RowQueue[]> shuffles = new ConcurrentHashMap<>();

    @Override
    public <K, V, C> ShuffleHandle registerShuffle(int shuffleId, ShuffleDependency<K, V, C> dependency) {
        RowQueue[] queues = new RowQueue[dependency.partitioner().numPartitions()];
        int writers = dependency.rdd().getNumPartitions();
        for (int i = 0; i < queues.length; i++) queues[i] = new RowQueue(writers);
        shuffles.put(shuffleId, queues);
        return super.registerShuffle(shuffleId, dependency);
    }

    @Override
    public boolean unregisterShuffle(int shuffleId) {
        shuffles.remove(shuffleId);
        return super.unregisterShuffle(shuffleId);
    }

    @Override
    public <K, V> ShuffleWriter<K, V> getWriter(
            ShuffleHandle handle, long mapId, TaskContext task, ShuffleWriteMetricsReporter metrics) {
        var dependency = ((BaseShuffleHandle<?, ?, ?>) handle).dependency();
        return new Writer<>(shuffles.get(handle.shuffleId()), dependency.partitioner(), mapId, task);
    }

    @Override
    public <K, C> ShuffleReader<K, C> getReader(
            ShuffleHandle handle, int startMap, int endMap, int start, int end, TaskContext task,
            ShuffleReadMetricsReporter metrics) {
        RowQueue queue = shuffles.get(handle.shuffleId())[start];
        return () -> queue.rows(task);
    }

    private static final class Writer<K, V> extends ShuffleWriter<K, V> {
        private final RowQueue[] queues;
        private final Partitioner partitioner;
        private final long mapId;
        private final TaskContext task;

        Writer(RowQueue[] queues, Partitioner partitioner, long mapId, TaskContext task) {
            this.queues = queues;
            this.partitioner = partitioner;
            this.mapId = mapId;
            this.task = task;
        }

        @Override
        public void write(Iterator<Product2<K, V>> rows) {
            RowCount sent = Barrier.shuffledBy(task);
            while (rows.hasNext()) {
                Product2<K, V> row = rows.next();
                sent.increment();
                queues[partitioner.getPartition(row._1())].put(row._2(), task);
            }
            for (RowQueue queue : queues) queue.end();
        }

        @Override
        public Option<MapStatus> stop(boolean success) {
            return Option.apply(MapStatus$.MODULE$.apply(
                    SparkEnv.get().blockManager().shuffleServerId(), getPartitionLengths(), mapId, 0));
        }

        @Override
        public long[] getPartitionLengths() {
            return new long[queues.length];
        }
    }
}
