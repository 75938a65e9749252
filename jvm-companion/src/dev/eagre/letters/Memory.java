package dev.eagre.letters;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.delivery.Delivered;

/**
 * The dead letters that a pipeline which delivers exactly once wrote before this run, since its last
 * commit: their rows are read again, and end there again without a second letter.
 */
final class Memory {
    private final String prefix;
    private final String site;
    private final Delivered written;

    /**
     * @param run {@code prefix}, the pipeline's id and incarnation; {@code written}, a {@link Delivered}
     * @param site who writes: a function, the source, or the sink
     */
    Memory(JsonNode run, String site) {
        prefix = run.get("prefix").asText();
        written = Delivered.fromText(run.get("written").asText());
        this.site = site.replace(' ', '_');
    }

    boolean isEmpty() {
        return written.isEmpty();
    }

    boolean holds(Position position, int ordinal) {
        return written.contains(site + " " + position.topic(), position.partition(), position.offset(), ordinal);
    }

    /** {@code PIPELINE INCARNATION TOPIC/PARTITION/OFFSET/ORDINAL SITE}. */
    String identity(Position position, int ordinal) {
        return prefix + " " + position + "/" + ordinal + " " + site;
    }
}
