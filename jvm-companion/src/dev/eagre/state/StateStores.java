package dev.eagre.state;

import dev.eagre.commit.MidEpochCommits.StateVersion;
import dev.eagre.spark.PrivateMember;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
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

    /**
     * Writes the state of a query; no row may be in flight meanwhile.
     *
     * @return null if some of its stores are not loaded yet
     */
    public static StateVersion write(UUID run, List<StatefulOperatorStateInfo> operators) {
        long began = System.nanoTime();
        Map<Object, String[][]> ids = new HashMap<>();
        int expected = 0;
        for (StatefulOperatorStateInfo operator : operators) {
            ids.put(operator.operatorId(), new String[operator.numPartitions()][]);
            expected += operator.numPartitions();
        }
        Map<StateStoreId, RocksDB> stores = stores(run);
        if (stores.size() != expected) return null;
        long version = -1;
        long keys = 0;
        long memory = 0;
        long disk = 0;
        for (Map.Entry<StateStoreId, RocksDB> entry : stores.entrySet()) {
            RocksDB store = entry.getValue();
            Tuple2<Object, StateStoreCheckpointInfo> written = store.commit(false);
            long now = (Long) written._1();
            Option<String> id = written._2().stateStoreCkptId();
            if (version >= 0 && now != version || id.isEmpty()) {
                throw new IllegalStateException("STATE_NOT_WRITTEN: the state stores are at different versions: " + version + " and " + now);
            }
            version = now;
            ids.get(entry.getKey().operatorId())[entry.getKey().partitionId()] = new String[] {id.get()};
            var metrics = store.metricsOpt();
            if (metrics.isDefined()) {
                keys += metrics.get().numCommittedKeys();
                memory += metrics.get().totalMemUsageBytes();
                disk += metrics.get().totalSSTFilesBytes();
            }
            // Loads the same version, which reads nothing; further changes go into the next version.
            store.load(now, id, false, false);
        }
        return new StateVersion(version, ids, keys, memory, disk, (System.nanoTime() - began) / 1_000_000);
    }

    private static Map<StateStoreId, RocksDB> stores(UUID run) {
        Map<StateStoreId, RocksDB> stores = new HashMap<>();
        var loaded = loaded();
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

    @SuppressWarnings("unchecked")
    private static scala.collection.mutable.Map<StateStoreProviderId, StateStoreProvider> loaded() {
        return (scala.collection.mutable.Map<StateStoreProviderId, StateStoreProvider>)
                PrivateMember.STATE_STORES.read("loadedProviders", StateStore$.MODULE$);
    }
}
