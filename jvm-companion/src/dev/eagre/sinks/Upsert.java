package dev.eagre.sinks;

import java.util.List;

/**
 * A row to be written.
 *
 * @param key the texts of its key columns
 * @param values text, bytes or null for each column
 * @param version how new it is
 */
record Upsert(List<String> key, List<Object> values, Version version) {
    /** The newer of two rows of one key. */
    static Upsert newest(Upsert stored, Upsert next) {
        if (!next.version.newerThan(stored.version)) return stored;
        return new Upsert(next.key, next.values, next.version.over(stored.version));
    }
}
