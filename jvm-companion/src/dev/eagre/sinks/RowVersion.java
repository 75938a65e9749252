package dev.eagre.sinks;

/**
 * How new a row is: the place of the record it comes from, or a number of the row's own.
 *
 * <p>Two versions of one source compare by offset, then by ordinal. Between sources the later time
 * decides, then the name; that is the business of the databases, which know what is kept. So that
 * records out of time cannot make a circle of this, the time that is kept never goes back.
 *
 * @param source a partition of a topic, or the column that the row brings its version in
 * @param offset the record's offset, or the row's own number
 * @param ordinal which of the rows that one record gave the same key
 * @param time when the record was written, in milliseconds
 */
record RowVersion(String source, long offset, int ordinal, long time) {
    boolean sameSource(RowVersion other) {
        return source.equals(other.source);
    }

    /** Whether it is newer than another of the same source. */
    boolean newerThan(RowVersion other) {
        return offset != other.offset ? offset > other.offset : ordinal > other.ordinal;
    }

    /** What is kept when it replaces another of the same source. */
    RowVersion over(RowVersion other) {
        return time >= other.time ? this : new RowVersion(source, offset, ordinal, other.time);
    }
}
