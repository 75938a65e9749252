package dev.eagre.connectors.upsert;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/** The database of a sink; credentials are read when a connection is opened. */
public interface Database {
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

    /** The database whose class a sink names. */
    static Database of(JsonNode spec) {
        String name = spec.get("class").asText();
        try {
            return Class.forName(name).asSubclass(Database.class).getConstructor(JsonNode.class).newInstance(spec);
        } catch (ReflectiveOperationException | ClassCastException error) {
            throw new DatabaseException(
                    "SINK_CLASS_MISSING",
                    "the class " + name + " of this sink cannot be used (" + error.getClass().getSimpleName() + ").",
                    "put its jar on Spark's class path with --conf spark.jars=....");
        }
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
