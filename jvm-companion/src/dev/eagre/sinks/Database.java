package dev.eagre.sinks;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/** A database as the declaration of a sink names it; passwords are read when it is connected to. */
interface Database {
    /** Its kind and address, for messages. */
    String name();

    Link connect() throws ConnectionLost;

    /** A connection to it. */
    interface Link {
        /** Makes sure, before the first row, that rows can be written. */
        void prepare() throws ConnectionLost;

        /** Writes rows; those that are not newer than what is there change nothing. */
        void write(List<Upsert> rows) throws ConnectionLost;

        void close();
    }

    static Database of(JsonNode spec) {
        return spec.get("kind").asText().equals("postgres") ? new Postgres(spec) : new Redis(spec);
    }

    static JsonNode read(String spec) {
        try {
            return new ObjectMapper().readTree(spec);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static List<String> texts(JsonNode list) {
        List<String> found = new ArrayList<>();
        list.forEach(item -> found.add(item.asText()));
        return found;
    }
}
