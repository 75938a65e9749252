package dev.eagre.sinks;

/**
 * How new a row is: the place of the record it comes from, or a number of the row's own.
 *
 * <p>Two versions of one source, a partition of a topic, compare by offset, then by ordinal. Between
 * sources the later time decides, then the name. So that records out of time cannot make a circle of
 * this, the time that is kept never goes back.
 *
 * @param source a partition of a topic, or the column that the row brings its version in
 * @param offset the record's offset, or the row's own number
 * @param ordinal which of the rows that one record gave the same key
 * @param time when the record was written, in milliseconds
 */
record Version(String source, long offset, int ordinal, long time) {
    boolean newerThan(Version stored) {
        if (source.equals(stored.source)) {
            return offset != stored.offset ? offset > stored.offset : ordinal > stored.ordinal;
        }
        return time != stored.time ? time > stored.time : source.compareTo(stored.source) > 0;
    }

    /** What is kept when this version replaces another. */
    Version over(Version stored) {
        return time >= stored.time ? this : new Version(source, offset, ordinal, stored.time);
    }
}
