package dev.eagre.connectors.upsert;

import dev.eagre.commit.RecordPosition;

/**
 * The version of a row: the position of its record, or a number in the row.
 *
 * <p>Two versions of one source are compared by offset, then by ordinal. Versions of different sources are
 * compared by time, then by name; the database does this, because it has the stored version. The stored
 * time never goes back, so that records with unordered times cannot form a cycle.
 *
 * @param source a topic partition, or the column with the row's version
 * @param offset the record's offset, or the row's version number
 * @param ordinal the number of the row among those of its record with the same key
 * @param time when the record was written, in milliseconds
 */
public record RowVersion(String source, long offset, int ordinal, long time) {
    public boolean sameSource(RowVersion other) {
        return source.equals(other.source);
    }

    /** Whether this version is newer than another of the same source. */
    boolean newerThan(RowVersion other) {
        return offset != other.offset ? offset > other.offset : ordinal > other.ordinal;
    }

    /** The version to store when it replaces another of the same source. */
    RowVersion over(RowVersion other) {
        return time >= other.time ? this : new RowVersion(source, offset, ordinal, other.time);
    }

    /**
     * The record of a row whose version is its position.
     *
     * @param source {@code topic/partition} or {@code topic@id/partition}; the id is base64 and may contain a slash
     */
    static RecordPosition recordOf(String source, long offset) {
        int slash = source.lastIndexOf('/');
        String topic = source.substring(0, slash).split("@", 2)[0];
        return new RecordPosition(topic, Integer.parseInt(source.substring(slash + 1)), offset);
    }
}
