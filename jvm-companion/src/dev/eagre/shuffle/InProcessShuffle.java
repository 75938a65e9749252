package dev.eagre.shuffle;

import dev.eagre.commit.Barrier;
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
 * The streaming shuffle where all tasks are threads of one JVM: a row goes from hand to hand, where Spark's own
 * packs it, sends it through a socket, and unpacks it, with four threads to be woken on the way. Rows are counted at
 * both ends: none may be under way when state is written.
 */
public final class InProcessShuffle extends StreamingShuffleManager {
    private static volatile boolean inUse;

    private final Map<Integer, RowQueue[]> shuffles = new ConcurrentHashMap<>();

    public InProcessShuffle() {
        inUse = true;
    }

    /** Whether the rows of this JVM's real-time shuffles are counted. */
    public static boolean inUse() {
        return inUse;
    }

    @Override
    public <K, V, C> ShuffleHandle registerShuffle(int shuffleId, ShuffleDependency<K, V, C> dependency) {
        RowQueue[] lanes = new RowQueue[dependency.partitioner().numPartitions()];
        int writers = dependency.rdd().getNumPartitions();
        for (int i = 0; i < lanes.length; i++) lanes[i] = new RowQueue(writers);
        shuffles.put(shuffleId, lanes);
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
        RowQueue lane = shuffles.get(handle.shuffleId())[start];
        return () -> lane.rows(task);
    }

    private static final class Writer<K, V> extends ShuffleWriter<K, V> {
        private final RowQueue[] lanes;
        private final Partitioner partitioner;
        private final long mapId;
        private final TaskContext task;

        Writer(RowQueue[] lanes, Partitioner partitioner, long mapId, TaskContext task) {
            this.lanes = lanes;
            this.partitioner = partitioner;
            this.mapId = mapId;
            this.task = task;
        }

        @Override
        public void write(Iterator<Product2<K, V>> rows) {
            Barrier.Count leaving = Barrier.leaving(task);
            while (rows.hasNext()) {
                Product2<K, V> row = rows.next();
                leaving.one();
                lanes[partitioner.getPartition(row._1())].put(row._2(), task);
            }
            for (RowQueue lane : lanes) lane.end();
        }

        @Override
        public Option<MapStatus> stop(boolean success) {
            return Option.apply(MapStatus$.MODULE$.apply(
                    SparkEnv.get().blockManager().shuffleServerId(), getPartitionLengths(), mapId, 0));
        }

        @Override
        public long[] getPartitionLengths() {
            return new long[lanes.length];
        }
    }
}
