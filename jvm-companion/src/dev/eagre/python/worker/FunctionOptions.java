package dev.eagre.python.worker;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.python.codec.WireBuffer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/** How functions run: the interpreter, its limits, and the error policy. */
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

    /** The options for a worker: all except the settings for dead letters, which may be secret. */
    public ObjectNode forWorker() {
        ObjectNode visible = json.deepCopy();
        visible.remove("dead_letters");
        return visible;
    }

    /** The first message to a worker: the options, then the functions. */
    public static WireBuffer hello(ObjectNode options, byte[]... code) {
        WireBuffer hello = new WireBuffer(1 << 12);
        Worker.begin(hello);
        hello.putText(options.toString());
        for (byte[] function : code) {
            hello.putBlock(function);
        }
        return hello;
    }

    /** Whether the function shares its step with no other. */
    public boolean runsAlone() {
        return kind().equals("batch") || isSink();
    }

    boolean isSink() {
        return kind().equals("sink");
    }

    /** How long the rows of a sink are tried again. */
    long retryNanos() {
        return json.get("retry_ms").asLong() * 1_000_000;
    }

    /** {@code map} for functions of a row, {@code batch} for functions of lists, {@code state}, or {@code sink}. */
    public String kind() {
        return json.get("kind").asText();
    }

    String python() {
        return json.get("python").asText();
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
