package dev.eagre.delivery;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.classic.SparkSession;

/** Exactly-once delivery, as called from Python: provenance, replay filter, scan of the output, and lock. */
public final class DeliveryApi {
    private static final long RETRY_MS = 50;
    private static final Map<Path, FileLock> LOCKS = new HashMap<>();

    private DeliveryApi() {}

    /**
     * Adds the column {@code _source} to the rows if they lack it.
     *
     * @param aligned the columns by which the source is partitioned
     * @throws UnsupportedPipeline if results could not be identified in a replay
     */
    public static Dataset<Row> carried(Dataset<Row> rows, List<String> aligned) {
        return Dataset$.MODULE$.ofRows(
                rows.sparkSession(), Provenance.carried(rows.queryExecution().analyzed(), aligned));
    }

    /** A column with the identity of each result; null for results delivered by earlier runs. */
    public static Column identity(Column source, String prefix, Broadcast<DeliveredOffsets> delivered) {
        return ExpressionUtils.column(new ReplayFilter(ExpressionUtils.expression(source), prefix, delivered));
    }

    /** An empty set of delivered results, for a first run. */
    public static Broadcast<DeliveredOffsets> nothing(SparkSession spark) {
        return broadcast(spark, new DeliveredOffsets());
    }

    /**
     * Collects the identities in a part of the output; see {@link OutputScan}.
     *
     * @param settings the settings of the Kafka client
     * @param rule {@code set}, or {@code maximum} as a negative control for the tests
     */
    public static Broadcast<DeliveredOffsets> scan(
            SparkSession spark,
            Map<String, Object> settings,
            String starts,
            String ends,
            String pipeline,
            int incarnation,
            String committed,
            String rule)
            throws Exception {
        DeliveredOffsets delivered = new OutputScan(OutputScan.IDENTITY, pipeline, incarnation, committed).read(settings, starts, ends);
        return broadcast(spark, rule.equals("maximum") ? delivered.fillGaps() : delivered);
    }

    /** Collects the dead letters in a part of their topics, as text. */
    public static String deadLetters(
            Map<String, Object> settings, String starts, String ends, String pipeline, String committed)
            throws Exception {
        return new OutputScan(OutputScan.DEAD_LETTER, pipeline, 0, committed).read(settings, starts, ends).toText();
    }

    /** The number of identities found. */
    public static long size(Broadcast<DeliveredOffsets> delivered) {
        return delivered.value().size();
    }

    /**
     * The highest delivered position by topic and partition, as JSON.
     *
     * @param deadLetters the result of {@link #deadLetters}
     */
    public static String reach(Broadcast<DeliveredOffsets> results, String deadLetters) throws IOException {
        Map<String, Map<Integer, Long>> highest = new HashMap<>();
        results.value().reach(highest);
        DeliveredOffsets.fromText(deadLetters).reach(highest);
        return new ObjectMapper().writeValueAsString(highest);
    }

    private static Broadcast<DeliveredOffsets> broadcast(SparkSession spark, DeliveredOffsets delivered) {
        return JavaSparkContext.fromSparkContext(spark.sparkContext()).broadcast(delivered);
    }

    /**
     * Acquires the lock of a checkpoint until this JVM exits. The JVM can write for exactly that long, so the
     * next process to get the lock knows that this one is dead.
     *
     * @return whether the lock was acquired in time
     */
    public static boolean lock(String file, long waitMs) throws IOException, InterruptedException {
        Path path = Path.of(file).toAbsolutePath();
        synchronized (LOCKS) {
            if (LOCKS.containsKey(path)) return true;
            FileChannel channel = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            long deadline = System.nanoTime() + waitMs * 1_000_000;
            while (true) {
                FileLock lock = tryLock(channel);
                if (lock != null) {
                    LOCKS.put(path, lock);
                    return true;
                }
                if (System.nanoTime() > deadline) {
                    channel.close();
                    return false;
                }
                Thread.sleep(RETRY_MS);
            }
        }
    }

    private static FileLock tryLock(FileChannel channel) throws IOException {
        try {
            return channel.tryLock();
        } catch (OverlappingFileLockException error) {
            return null;
        }
    }
}
