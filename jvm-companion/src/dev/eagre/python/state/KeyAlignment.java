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
 * Holds a pipeline that delivers exactly once to its word that rows of a key come from one partition:
 * the state keeps which. Of the key that Spark handles at the moment.
 */
final class KeyAlignment {
    private static final String VARIABLE = "eagre_partition";
    private static final int MOST_REMEMBERED = 100_000;

    private final ValueState<Integer> kept;
    private final Map<ByteBuffer, Integer> remembered = new HashMap<>();

    KeyAlignment(StatefulProcessorHandle handle) {
        kept = handle.getValueState(VARIABLE, EncoderCache.of(Encoders.INT()), TTLConfig.NONE());
    }

    void require(ByteBuffer key, int partition) {
        Integer known = remembered.get(key);
        if (known == null) known = look(key, partition);
        if (known != partition) {
            throw new IllegalStateException("KEY_NOT_ALIGNED: rows of one key came from the partitions "
                    + Math.min(known, partition) + " and " + Math.max(known, partition)
                    + "; the source's partitioned_by is not true of it");
        }
    }

    private int look(ByteBuffer key, int partition) {
        if (!kept.exists()) kept.update(partition);
        int found = kept.get();
        if (remembered.size() >= MOST_REMEMBERED) remembered.clear();
        remembered.put(key, found);
        return found;
    }
}
