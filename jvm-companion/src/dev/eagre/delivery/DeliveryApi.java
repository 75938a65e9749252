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

/** What the Python package calls: origins, the gate, the scan of the output, and the lock. */
public final class DeliveryApi {
    private static final long TRY_AGAIN_MS = 50;
    private static final Map<Path, FileLock> LOCKS = new HashMap<>();

    private DeliveryApi() {}

    /**
     * The rows with the column {@code _source} among them.
     *
     * @param aligned the columns that the source's partitions are made by
     * @throws UnsupportedPipeline if the results could not be told apart in a replay
     */
    public static Dataset<Row> carried(Dataset<Row> rows, List<String> aligned) {
        return Dataset$.MODULE$.ofRows(
                rows.sparkSession(), Provenance.carried(rows.queryExecution().analyzed(), aligned));
    }

    /** A column with the identity of each result, null for those delivered before. */
    public static Column identity(Column source, String prefix, Broadcast<DeliveredOffsets> delivered) {
        return ExpressionUtils.column(new ReplayFilter(ExpressionUtils.expression(source), prefix, delivered));
    }

    /** What is known to be delivered where nothing can be: before the first run. */
    public static Broadcast<DeliveredOffsets> nothing(SparkSession spark) {
        return broadcast(spark, new DeliveredOffsets());
    }

    /**
     * Collects the identities in a part of the output; see {@link OutputScan}.
     *
     * @param settings of a Kafka client
     * @param rule {@code set}, or {@code maximum} as a control that must be found at fault
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
        DeliveredOffsets all = new OutputScan(OutputScan.IDENTITY, pipeline, incarnation, committed).read(settings, starts, ends);
        return broadcast(spark, rule.equals("maximum") ? all.upToTheHighest() : all);
    }

    /** Collects the dead letters in a part of their topics, as text. */
    public static String deadLetters(
            Map<String, Object> settings, String starts, String ends, String pipeline, String committed)
            throws Exception {
        return new OutputScan(OutputScan.LETTER, pipeline, 0, committed).read(settings, starts, ends).toText();
    }

    /** How many identities were found. */
    public static long size(Broadcast<DeliveredOffsets> delivered) {
        return delivered.value().size();
    }

    /**
     * How far what was found reaches: the highest position by topic and partition, as JSON.
     *
     * @param letters what {@link #letters} gave
     */
    public static String reach(Broadcast<DeliveredOffsets> results, String letters) throws IOException {
        Map<String, Map<Integer, Long>> highest = new HashMap<>();
        results.value().reach(highest);
        DeliveredOffsets.fromText(letters).reach(highest);
        return new ObjectMapper().writeValueAsString(highest);
    }

    private static Broadcast<DeliveredOffsets> broadcast(SparkSession spark, DeliveredOffsets delivered) {
        return JavaSparkContext.fromSparkContext(spark.sparkContext()).broadcast(delivered);
    }

    /**
     * Takes the lock of a checkpoint for as long as this JVM lives, which is also as long as it can
     * write: who gets it knows that the process before is dead.
     *
     * @return whether it was to be had in time
     */
    public static boolean lock(String file, long waitMs) throws IOException, InterruptedException {
        Path path = Path.of(file).toAbsolutePath();
        synchronized (LOCKS) {
            if (LOCKS.containsKey(path)) return true;
            FileChannel channel = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            long deadline = System.nanoTime() + waitMs * 1_000_000;
            while (true) {
                FileLock lock = tried(channel);
                if (lock != null) {
                    LOCKS.put(path, lock);
                    return true;
                }
                if (System.nanoTime() > deadline) {
                    channel.close();
                    return false;
                }
                Thread.sleep(TRY_AGAIN_MS);
            }
        }
    }

    private static FileLock tried(FileChannel channel) throws IOException {
        try {
            return channel.tryLock();
        } catch (OverlappingFileLockException error) {
            return null;
        }
    }
}
