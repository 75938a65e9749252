package dev.eagre.connectors.upsert;

import dev.eagre.commit.RecordPosition;
import java.util.List;

/**
 * A row to write.
 *
 * @param key the texts of its key columns
 * @param values text, bytes or null for each column
 * @param version the version of the row
 * @param record the record that it comes from; null if unknown
 */
public record Upsert(List<String> key, List<Object> values, RowVersion version, RecordPosition record) {
    /** The newer of this row and another of the same key and source. */
    public Upsert or(Upsert next) {
        if (!next.version.newerThan(version)) return this;
        return new Upsert(next.key, next.values, next.version.over(version), next.record);
    }
}
