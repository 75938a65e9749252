package dev.eagre.deadletter;

import dev.eagre.commit.RecordPosition;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map.Entry;

/**
 * A row that could not go on.
 *
 * @param position where its record stands; null if nobody knows
 * @param reason why it could not, after a word in capitals or a function's name
 * @param time when that was
 * @param original its record; null if it is yet to be read
 * @param identity what a later run knows it by; null if nobody asks
 */
public record DeadLetter(RecordPosition position, String reason, Instant time, SourceRecord original, String identity) {
    /** A letter whose record is read from its topic when the letter is written. */
    public static DeadLetter of(RecordPosition position, String reason) {
        return new DeadLetter(position, reason, Instant.now(), null, null);
    }

    static DeadLetter of(RecordPosition position, String reason, SourceRecord original) {
        return new DeadLetter(position, reason, Instant.now(), original, null);
    }

    DeadLetter with(SourceRecord found) {
        return new DeadLetter(position, reason, time, found, identity);
    }

    DeadLetter known(String by) {
        return new DeadLetter(position, reason, time, original, by);
    }

    /** The record's own headers, then the letter's. */
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
