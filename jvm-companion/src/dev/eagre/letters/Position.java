package dev.eagre.letters;

import java.io.Serializable;

/** Where a record stands. */
public record Position(String topic, int partition, long offset) implements Serializable {
    @Override
    public String toString() {
        return topic + "/" + partition + "/" + offset;
    }
}
