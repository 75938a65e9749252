package dev.eagre.state;

import dev.eagre.commit.MidEpochCommits.StateVersion;
import dev.eagre.spark.SparkInternals;
import dev.eagre.testing.FaultPoint;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreCheckpointInfo;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Writes the state of a running query as a new version, while its tasks keep running. Spark itself does this at an
 * epoch boundary.
 */
public final class StateStores {
    private StateStores() {}

    /** A state store of one partition, as it was written. */
    public record WrittenStore(
            long operator, int partition, long version, String id, long keys, long memoryBytes, long diskBytes) {}

    /**
     * Writes the state of a query; no row may be in flight meanwhile.
     *
     * @return null if some of its stores are not loaded yet
     */
    public static StateVersion write(UUID run, List<StatefulOperatorStateInfo> operators) {
        long began = System.nanoTime();
        return loadedBy(run) == count(operators) ? merge(operators, write(run), began) : null;
    }

    /** The number of stores that the operators of a query have. */
    public static int count(List<StatefulOperatorStateInfo> operators) {
        return operators.stream().mapToInt(StatefulOperatorStateInfo::numPartitions).sum();
    }

    /** The number of stores of a query that are loaded in this JVM; Spark lists a store before it has loaded it. */
    public static int loadedBy(UUID run) {
        return (int) stores(run).values().stream().filter(store -> store.loadedVersion() >= 0).count();
    }

    /** Writes the stores of a query that are loaded in this JVM. */
    public static List<WrittenStore> write(UUID run) {
        List<WrittenStore> all = new ArrayList<>();
        FaultPoint.reach("buffers flushed");
        stores(run).forEach((id, store) -> {
            all.add(write(id, store));
            FaultPoint.reach("store written");
        });
        return all;
    }

    private static WrittenStore write(StateStoreId id, RocksDB store) {
        Tuple2<Object, StateStoreCheckpointInfo> written = store.commit(false);
        long version = (Long) written._1();
        Option<String> checkpoint = written._2().stateStoreCkptId();
        if (checkpoint.isEmpty()) throw new IllegalStateException("STATE_NOT_WRITTEN: version " + version + " has no id");
        var metrics = store.metricsOpt();
        // Loads the same version, which reads nothing; further changes go into the next version.
        store.load(version, checkpoint, false, false);
        return new WrittenStore(
                id.operatorId(),
                id.partitionId(),
                version,
                checkpoint.get(),
                metrics.isDefined() ? metrics.get().numCommittedKeys() : 0,
                metrics.isDefined() ? metrics.get().totalMemUsageBytes() : 0,
                metrics.isDefined() ? metrics.get().totalSSTFilesBytes() : 0);
    }

    /** The version that all stores of a query were written as; {@code began} is when the first write did. */
    public static StateVersion merge(List<StatefulOperatorStateInfo> operators, List<WrittenStore> stores, long began) {
        Map<Object, String[][]> ids = new HashMap<>();
        operators.forEach(operator -> ids.put(operator.operatorId(), new String[operator.numPartitions()][]));
        Set<Long> versions = stores.stream().map(WrittenStore::version).collect(Collectors.toSet());
        for (WrittenStore store : stores) ids.get(store.operator())[store.partition()] = new String[] {store.id()};
        boolean complete = ids.values().stream().flatMap(Stream::of).allMatch(Objects::nonNull);
        if (versions.size() != 1 || !complete) {
            throw new IllegalStateException("STATE_NOT_WRITTEN: " + stores.size() + " stores at the versions " + versions);
        }
        return new StateVersion(
                versions.iterator().next(),
                ids,
                stores.stream().mapToLong(WrittenStore::keys).sum(),
                stores.stream().mapToLong(WrittenStore::memoryBytes).sum(),
                stores.stream().mapToLong(WrittenStore::diskBytes).sum(),
                (System.nanoTime() - began) / 1_000_000);
    }

    private static Map<StateStoreId, RocksDB> stores(UUID run) {
        Map<StateStoreId, RocksDB> stores = new HashMap<>();
        var loaded = SparkInternals.loadedStateStores();
        List<Tuple2<StateStoreProviderId, StateStoreProvider>> all = new ArrayList<>();
        synchronized (loaded) {
            CollectionConverters.asJava(loaded).forEach((id, provider) -> all.add(new Tuple2<>(id, provider)));
        }
        for (Tuple2<StateStoreProviderId, StateStoreProvider> entry : all) {
            if (entry._1().queryRunId().equals(run) && entry._2() instanceof RocksDBStateStoreProvider provider) {
                stores.put(entry._1().storeId(), provider.rocksDB());
            }
        }
        return stores;
    }
}
