package dev.eagre.deadletter;

import dev.eagre.commit.RecordPosition;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map.Entry;

/**
 * A row that could not be processed.
 *
 * @param position the position of its record; null if unknown
 * @param reason why it failed, after a word in capitals or a function's name
 * @param time when it failed
 * @param original its record; null if it is not read yet
 * @param identity identifies it in later runs; null without exactly once
 */
public record DeadLetter(RecordPosition position, String reason, Instant time, SourceRecord original, String identity) {
    /** A dead letter whose record is read from its topic when the dead letter is written. */
    public static DeadLetter of(RecordPosition position, String reason) {
        return new DeadLetter(position, reason, Instant.now(), null, null);
    }

    static DeadLetter of(RecordPosition position, String reason, SourceRecord original) {
        return new DeadLetter(position, reason, Instant.now(), original, null);
    }

    DeadLetter with(SourceRecord record) {
        return new DeadLetter(position, reason, time, record, identity);
    }

    DeadLetter withIdentity(String value) {
        return new DeadLetter(position, reason, time, original, value);
    }

    /** The headers of the record, then those of the dead letter. */
    List<Entry<String, byte[]>> headers(String pipeline, String lost) {
        List<Entry<String, byte[]>> headers = new ArrayList<>(original.headers());
        headers.add(text("eagre-pipeline", pipeline));
        headers.add(text("eagre-reason", reason));
        headers.add(text("eagre-source", position == null ? "" : position.toString()));
        headers.add(text("eagre-time", time.toString()));
        if (identity != null) headers.add(text("eagre-letter", identity));
        if (lost != null) headers.add(text("eagre-lost", lost));
        return headers;
    }

    private static Entry<String, byte[]> text(String name, String value) {
        return SourceRecord.header(name, value.getBytes(StandardCharsets.UTF_8));
    }
}
