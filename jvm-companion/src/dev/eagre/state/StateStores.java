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
 * The state of a running query, written as a version of its own while its tasks go on: what Spark does at the
 * end of an epoch, and the next one at its beginning, without the end and the beginning.
 */
public final class StateStores {
    private StateStores() {}

    /**
     * Writes the state of a query; none of its tasks may work meanwhile.
     *
     * @return null if not all of its stores are there yet
     */
    public static StateVersion write(UUID run, List<StatefulOperatorStateInfo> operators) {
        long began = System.nanoTime();
        Map<Object, String[][]> ids = new HashMap<>();
        int awaited = 0;
        for (StatefulOperatorStateInfo operator : operators) {
            ids.put(operator.operatorId(), new String[operator.numPartitions()][]);
            awaited += operator.numPartitions();
        }
        Map<StateStoreId, RocksDB> stores = stores(run);
        if (stores.size() != awaited) return null;
        long version = -1;
        long keys = 0;
        long memory = 0;
        long disk = 0;
        for (Map.Entry<StateStoreId, RocksDB> one : stores.entrySet()) {
            RocksDB store = one.getValue();
            Tuple2<Object, StateStoreCheckpointInfo> written = store.commit(false);
            long now = (Long) written._1();
            Option<String> id = written._2().stateStoreCkptId();
            if (version >= 0 && now != version || id.isEmpty()) {
                throw new IllegalStateException("STATE_NOT_WRITTEN: its parts are at versions " + version + " and " + now);
            }
            version = now;
            ids.get(one.getKey().operatorId())[one.getKey().partitionId()] = new String[] {id.get()};
            var metrics = store.metricsOpt();
            if (metrics.isDefined()) {
                keys += metrics.get().numCommittedKeys();
                memory += metrics.get().totalMemUsageBytes();
                disk += metrics.get().totalSSTFilesBytes();
            }
            // The same version again: nothing is read, and further changes go into the next one.
            store.load(now, id, false, false);
        }
        return new StateVersion(version, ids, keys, memory, disk, (System.nanoTime() - began) / 1_000_000);
    }

    private static Map<StateStoreId, RocksDB> stores(UUID run) {
        Map<StateStoreId, RocksDB> found = new HashMap<>();
        var loaded = loaded();
        List<Tuple2<StateStoreProviderId, StateStoreProvider>> all = new ArrayList<>();
        synchronized (loaded) {
            CollectionConverters.asJava(loaded).forEach((id, provider) -> all.add(new Tuple2<>(id, provider)));
        }
        for (Tuple2<StateStoreProviderId, StateStoreProvider> one : all) {
            if (one._1().queryRunId().equals(run) && one._2() instanceof RocksDBStateStoreProvider provider) {
                found.put(one._1().storeId(), provider.rocksDB());
            }
        }
        return found;
    }

    @SuppressWarnings("unchecked")
    private static scala.collection.mutable.Map<StateStoreProviderId, StateStoreProvider> loaded() {
        return (scala.collection.mutable.Map<StateStoreProviderId, StateStoreProvider>)
                PrivateMember.STATE_STORES.read("loadedProviders", StateStore$.MODULE$);
    }
}
