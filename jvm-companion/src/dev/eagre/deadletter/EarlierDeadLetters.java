package dev.eagre.deadletter;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.commit.RecordPosition;
import dev.eagre.delivery.DeliveredOffsets;

/**
 * The dead letters that earlier runs of an exactly-once pipeline wrote since the last commit. Their rows
 * are read again and fail again, and must not produce a second dead letter.
 */
final class EarlierDeadLetters {
    private final String prefix;
    private final String site;
    private final DeliveredOffsets written;

    /**
     * @param run {@code prefix}, the pipeline's id and incarnation; {@code written}, a {@link DeliveredOffsets}
     * @param site what writes the dead letter: a function, the source, or the sink
     */
    EarlierDeadLetters(JsonNode run, String site) {
        prefix = run.get("prefix").asText();
        written = DeliveredOffsets.fromText(run.get("written").asText());
        this.site = site.replace(' ', '_');
    }

    boolean isEmpty() {
        return written.isEmpty();
    }

    boolean holds(RecordPosition position, int ordinal) {
        return written.contains(site + " " + position.topic(), position.partition(), position.offset(), ordinal);
    }

    /** {@code PIPELINE INCARNATION TOPIC/PARTITION/OFFSET/ORDINAL SITE}. */
    String identity(RecordPosition position, int ordinal) {
        return prefix + " " + position + "/" + ordinal + " " + site;
    }
}
