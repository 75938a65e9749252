package dev.eagre.python.state;

import dev.eagre.state.EncoderCache;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;

/**
 * Checks, for exactly-once delivery, that all rows of a key come from one partition, as the pipeline declares.
 * The partition is stored in the state of the current key.
 */
final class KeyAlignment {
    private static final String VARIABLE = "eagre_partition";
    private static final int MAX_CACHED = 100_000;

    private final ValueState<Integer> partitionState;
    private final Map<ByteBuffer, Integer> cache = new HashMap<>();

    KeyAlignment(StatefulProcessorHandle handle) {
        partitionState = handle.getValueState(VARIABLE, EncoderCache.of(Encoders.INT()), TTLConfig.NONE());
    }

    void require(ByteBuffer key, int partition) {
        Integer expected = cache.get(key);
        if (expected == null) expected = readPartition(key, partition);
        if (expected != partition) {
            throw new IllegalStateException("KEY_NOT_ALIGNED: rows of one key came from the partitions "
                    + Math.min(expected, partition) + " and " + Math.max(expected, partition)
                    + "; the source's partitioned_by does not match the topic");
        }
    }

    private int readPartition(ByteBuffer key, int partition) {
        if (!partitionState.exists()) partitionState.update(partition);
        int partitionOfKey = partitionState.get();
        if (cache.size() >= MAX_CACHED) cache.clear();
        cache.put(key, partitionOfKey);
        return partitionOfKey;
    }
}
