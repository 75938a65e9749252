package dev.eagre.commit;

import java.io.Serializable;

/** The position of a record. */
public record RecordPosition(String topic, int partition, long offset) implements Serializable {
    @Override
    public String toString() {
        return topic + "/" + partition + "/" + offset;
    }
}
