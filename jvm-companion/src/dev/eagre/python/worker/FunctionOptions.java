package dev.eagre.python.worker;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.python.codec.WireBuffer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/** How functions are run: the interpreter, its limits, and what becomes of rows that fail. */
public final class FunctionOptions {
    public static final ObjectMapper JSON = new ObjectMapper();

    public final ObjectNode json;

    public FunctionOptions(String text) {
        try {
            json = (ObjectNode) JSON.readTree(text);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** What a worker may know of them: all but how dead letters are written, which may be secret. */
    public ObjectNode forWorker() {
        ObjectNode told = json.deepCopy();
        told.remove("dead_letters");
        return told;
    }

    /** The first message to a worker: what it is to know, then the functions themselves. */
    public static WireBuffer hello(ObjectNode told, byte[]... code) {
        WireBuffer hello = new WireBuffer(1 << 12);
        Worker.begin(hello);
        hello.putText(told.toString());
        for (byte[] function : code) {
            hello.putBlock(function);
        }
        return hello;
    }

    /** {@code map} for functions of a row, {@code batch} for those of lists, {@code state}. */
    public String kind() {
        return json.get("kind").asText();
    }

    String python() {
        return json.get("python").asText();
    }

    String pipeline() {
        return json.get("pipeline").asText();
    }

    List<String> path() {
        List<String> entries = new ArrayList<>();
        json.get("path").forEach(entry -> entries.add(entry.asText()));
        return entries;
    }

    long timeoutNanos() {
        return json.get("timeout_ms").asLong() * 1_000_000;
    }
}
