package dev.eagre.bench.streams;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;

/** JSON objects in topics, and the types of the results. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {}

    static <T> Serde<T> of(Class<T> type) {
        ObjectReader reader = MAPPER.readerFor(type);
        Serializer<T> writing = (topic, value) -> write(value);
        Deserializer<T> reading = (topic, bytes) -> read(reader, bytes);
        return Serdes.serdeFrom(writing, reading);
    }

    private static byte[] write(Object value) {
        try {
            return MAPPER.writeValueAsBytes(value);
        } catch (JsonProcessingException e) {
            throw new SerializationException(e);
        }
    }

    private static <T> T read(ObjectReader reader, byte[] bytes) {
        try {
            return reader.readValue(bytes);
        } catch (IOException e) {
            throw new SerializationException(e);
        }
    }

    record Tiered(String id, String card, long amount, String tier) {}

    record Counted(String card, long n, long total) {}

    record Windowed(String card, long start, long n, long total) {}

    record First(String id, String card, long amount) {}

    record Enriched(String id, String card, long amount, String category, String country) {}

    record Rolled(String card, long start, long n, long total, long least, long largest) {}
}
