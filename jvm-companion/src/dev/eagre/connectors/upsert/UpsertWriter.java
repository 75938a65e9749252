package dev.eagre.connectors.upsert;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.commit.RecordPosition;
import dev.eagre.metrics.RowCounters;
import dev.eagre.spark.StreamingRun;
import java.math.BigDecimal;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;

/**
 * Writes the rows of a stream into a database, each only if it is newer than the stored row. A row has the
 * columns of the table, then source, offset and time of its version.
 */
public final class UpsertWriter extends ForeachWriter<Row> {
    private final String spec;
    private final UUID query = UUID.randomUUID();

    private transient List<Integer> keys;
    private transient RowNumberPerKey ordinals;
    private transient BatchedWriter delivery;

    /** Prepares a write; the spec, as JSON, names the database and contains no secret. */
    public UpsertWriter(String spec) {
        this.spec = spec;
    }

    @Override
    public boolean open(long partition, long epoch) {
        JsonNode json = Database.read(spec);
        String pipeline = json.get("pipeline").asText();
        keys = new ArrayList<>();
        json.get("keys").forEach(index -> keys.add(index.asInt()));
        ordinals = new RowNumberPerKey();
        ConnectionPool pool = ConnectionPool.of(spec);
        uninterrupted(() -> pool.prepare(query));
        String run = StreamingRun.current();
        delivery = new BatchedWriter(pool, rows -> RowCounters.add(run, pipeline, "upserted", rows));
        delivery.start();
        return true;
    }

    @Override
    public void process(Row row) {
        Upsert upsert = upsert(row);
        uninterrupted(() -> delivery.add(upsert));
    }

    @Override
    public void close(Throwable error) {
        if (error == null) {
            uninterrupted(delivery::finish);
        } else {
            delivery.abandon();
        }
    }

    private Upsert upsert(Row row) {
        int columns = row.size() - 3;
        List<Object> values = new ArrayList<>(columns);
        for (int i = 0; i < columns; i++) {
            values.add(value(row.get(i)));
        }
        List<String> key = new ArrayList<>(keys.size());
        for (int index : keys) {
            key.add(String.valueOf(present(values.get(index), row.schema().fieldNames()[index], "KEY_NULL")));
        }
        return new Upsert(key, values, version(row, columns, key), record(row, columns));
    }

    private RowVersion version(Row row, int at, List<String> key) {
        String source = String.valueOf(present(row.get(at), "_source", "VERSION_NULL"));
        long offset = (Long) present(row.get(at + 1), source, "VERSION_NULL");
        if (row.isNullAt(at + 2)) return new RowVersion(source, offset, 0, System.currentTimeMillis());
        return new RowVersion(source, offset, ordinals.next(source, offset, key), row.getLong(at + 2));
    }

    /** The record of a row whose version is its source; a number in the row says nothing about its record. */
    private static RecordPosition record(Row row, int at) {
        return row.isNullAt(at + 2) ? null : RowVersion.recordOf(row.getString(at), row.getLong(at + 1));
    }

    private static Object present(Object value, String column, String code) {
        if (value != null) return value;
        throw new DatabaseException(
                code,
                "a row has no value in the column '" + column + "', which the database needs to tell rows apart.",
                "filter out such rows in the pipeline function: df.where(\"" + column + " IS NOT NULL\").");
    }

    /** A value as text that both databases can parse; bytes are unchanged. */
    private static Object value(Object value) {
        if (value == null || value instanceof byte[]) return value;
        if (value instanceof Timestamp time) return time.toInstant().toString();
        if (value instanceof BigDecimal number) return number.toPlainString();
        return value.toString();
    }

    private interface Step {
        void run() throws InterruptedException;
    }

    private static void uninterrupted(Step step) {
        try {
            step.run();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("the task was stopped", stopped);
        }
    }
}
