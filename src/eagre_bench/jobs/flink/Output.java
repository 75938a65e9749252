package dev.eagre.bench.flink;

import java.nio.charset.StandardCharsets;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** A record for the sink, and the shapes its value can have. */
public record Output(byte[] key, byte[] value) {
    private static final ObjectMapper JSON = new ObjectMapper();

    static Output of(String key, Record value) throws JsonProcessingException {
        return new Output(key.getBytes(StandardCharsets.UTF_8), JSON.writeValueAsBytes(value));
    }

    record Tiered(String id, String card, long amount, String tier) {}

    record Counted(String card, long n, long total) {}

    record Windowed(String card, long start, long n, long total) {}

    record First(String id, String card, long amount) {}

    record Enriched(String id, String card, long amount, String category, String country) {}

    record Rolled(String card, long start, long n, long total, long least, long largest) {}
}
