package dev.eagre.sinks;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/** The database of a sink; credentials are read when a connection is opened. */
interface Database {
    /** Its kind and address, for messages. */
    String name();

    Link connect() throws ConnectionLost;

    /** A connection to it. */
    interface Link {
        /** Checks before the first row that rows can be written. */
        void prepare() throws ConnectionLost;

        /** Writes rows; a row that is not newer than the stored one changes nothing. */
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
        List<String> texts = new ArrayList<>();
        list.forEach(item -> texts.add(item.asText()));
        return texts;
    }
}
