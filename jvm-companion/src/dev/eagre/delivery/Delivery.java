package dev.eagre.delivery;

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
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.classic.SparkSession;

/** What the Python package calls: origins, the gate, the scan of the output, and the lock. */
public final class Delivery {
    private static final long TRY_AGAIN_MS = 50;
    private static final Map<Path, FileLock> LOCKS = new HashMap<>();

    private Delivery() {}

    /**
     * The rows with the column {@code _source} among them.
     *
     * @param aligned the columns that the source's partitions are made by
     * @throws Refusal if the results could not be told apart in a replay
     */
    public static Dataset<Row> carried(Dataset<Row> rows, List<String> aligned) {
        return Dataset$.MODULE$.ofRows(
                rows.sparkSession(), Origins.carried(rows.queryExecution().analyzed(), aligned));
    }

    /** A column with the identity of each result, null for those delivered before. */
    public static Column identity(Column source, String prefix, Broadcast<Delivered> delivered) {
        return ExpressionUtils.column(new Gate(ExpressionUtils.expression(source), prefix, delivered));
    }

    /** What is known to be delivered where nothing can be: before the first run. */
    public static Broadcast<Delivered> nothing(SparkSession spark) {
        return broadcast(spark, new Delivered());
    }

    /**
     * Collects the identities in the output.
     *
     * @param reader options of Spark's Kafka source, from where to where included
     * @param pipeline the id that a header must name to count
     * @param incarnation the one whose fence stands last before the first record that is read; 0
     *     where no fences are written
     * @param committed the source offsets from which rows are read again, as JSON
     * @param rule {@code set}, or {@code maximum} as a control that must be found at fault
     */
    public static Broadcast<Delivered> scan(
            SparkSession spark,
            Map<String, String> reader,
            String pipeline,
            int incarnation,
            String committed,
            String rule) {
        Delivered all = collected(spark, reader, new Scan(Scan.IDENTITY, pipeline, incarnation, committed));
        return broadcast(spark, rule.equals("maximum") ? all.upToTheHighest() : all);
    }

    /** Collects the dead letters in a part of their topics, as text; the arguments are those of a scan. */
    public static String letters(
            SparkSession spark, Map<String, String> reader, String pipeline, String committed) {
        return collected(spark, reader, new Scan(Scan.LETTER, pipeline, 0, committed)).toText();
    }

    private static Delivered collected(SparkSession spark, Map<String, String> reader, Scan scan) {
        List<Delivered> parts = spark.read()
                .format("kafka")
                .options(reader)
                .option("includeHeaders", "true")
                .load()
                .select("headers")
                .javaRDD()
                .mapPartitions(scan)
                .collect();
        Delivered all = new Delivered();
        parts.forEach(all::merge);
        return all;
    }

    /** How many identities were found. */
    public static long size(Broadcast<Delivered> delivered) {
        return delivered.value().size();
    }

    private static Broadcast<Delivered> broadcast(SparkSession spark, Delivered delivered) {
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
