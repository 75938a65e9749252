package dev.eagre.spark;

import org.apache.spark.unsafe.types.UTF8String;

/** Numbers consecutive rows of the same record. */
public final class RowOrdinals {
    private UTF8String topic;
    private String topicText;
    private int partition;
    private long offset;
    private int ordinal;

    /** Advances to the next row, by its position. */
    public void next(UTF8String name, int from, long at) {
        boolean same = topic != null && at == offset && from == partition && name.equals(topic);
        ordinal = same ? ordinal + 1 : 0;
        if (same) return;
        if (topic == null || !name.equals(topic)) {
            topic = name.clone();
            topicText = topic.toString();
        }
        partition = from;
        offset = at;
    }

    public String topic() {
        return topicText;
    }

    public int partition() {
        return partition;
    }

    public long offset() {
        return offset;
    }

    /** The number of the row within its record. */
    public int ordinal() {
        return ordinal;
    }
}
