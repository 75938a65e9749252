package dev.eagre.deadletter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.eagre.commit.RecordPosition;
import dev.eagre.metrics.RowCounters;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.SparkException;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What becomes of rows of one task that cannot go on: the rule that the user chose. Its JSON has
 * {@code pipeline}, {@code on_error} ({@code dead-letter}, {@code drop} or {@code fail}) and
 * {@code dead_letters}, which is null where there is nowhere to send them, and {@code run}, which is
 * null unless results are delivered exactly once.
 */
public final class ErrorPolicy {
    private static final Logger LOG = LoggerFactory.getLogger("dev.eagre.letters");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long LOG_EVERY_NANOS = 1_000_000_000L;

    private final String pipeline;
    private final String onError;
    private final TaskDeadLetters letters;
    private final EarlierDeadLetters memory;
    private long logged = System.nanoTime() - LOG_EVERY_NANOS;
    private long unlogged;

    /** @param site who writes: a function, the source, or the sink */
    public ErrorPolicy(JsonNode json, String site) {
        pipeline = json.get("pipeline").asText();
        onError = json.get("on_error").asText();
        JsonNode address = json.path("dead_letters");
        letters = address.isObject() ? new TaskDeadLetters(pipeline, new DeadLetterTopics(address)) : null;
        memory = exact(json) ? new EarlierDeadLetters(json.get("run"), site) : null;
    }

    /** A policy for the task that runs, which does not end before its letters have arrived. */
    static ErrorPolicy forThisTask(JsonNode json, String site) {
        ErrorPolicy policy = new ErrorPolicy(json, site);
        TaskContext task = TaskContext.get();
        if (task == null) return policy;
        task.addTaskCompletionListener((TaskCompletionListener) context -> {
            if (!context.isFailed() && !context.isInterrupted()) policy.flush();
        });
        return policy;
    }

    /** Whether the rows are those of a pipeline that delivers exactly once. */
    public static boolean exact(JsonNode json) {
        return json.path("run").isObject();
    }

    static JsonNode read(String json) {
        try {
            return JSON.readTree(json);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Whether rows that a record gives must be counted, to know which of them failed before. */
    public boolean counts() {
        return memory != null;
    }

    /** Whether any row became a dead letter before this run began, and is read again now. */
    public boolean remembers() {
        return memory != null && !memory.isEmpty();
    }

    /** Whether a row did. */
    public boolean wrote(RecordPosition position, int ordinal) {
        return remembers() && position != null && memory.holds(position, ordinal);
    }

    /**
     * Applies the rule.
     *
     * @param code what the query's error begins with, if the rule is to fail
     * @param ordinal which of its record's rows failed
     */
    public void apply(String code, DeadLetter letter, int ordinal) {
        if (onError.equals("fail")) raise(new SparkException(code + ": " + told(letter)));
        if (onError.equals("drop") || letters == null) {
            RowCounters.add(pipeline, "dropped");
            warn(brief(letter) + "; the row is dropped");
        } else {
            send(letter, ordinal);
        }
    }

    /** Sends a letter, whatever the rule. */
    void send(DeadLetter letter, int ordinal) {
        if (wrote(letter.position(), ordinal)) return;
        boolean known = memory != null && letter.position() != null;
        post(known ? letter.known(memory.identity(letter.position(), ordinal)) : letter);
    }

    private void post(DeadLetter letter) {
        RowCounters.add(pipeline, "dead-lettered");
        warn(brief(letter) + "; it goes to " + letters.send(letter));
    }

    private static String told(DeadLetter letter) {
        return letter.reason() + at(letter);
    }

    /** The log does not repeat what stands in a record, which a parser's words may quote. */
    private static String brief(DeadLetter letter) {
        return letter.reason().startsWith("UNPARSABLE") ? "UNPARSABLE" + at(letter) : told(letter);
    }

    private static String at(DeadLetter letter) {
        return letter.position() == null ? "" : " for the record " + letter.position();
    }

    /** Says something at most once a second, and how much was left unsaid. */
    public void warn(String text) {
        long now = System.nanoTime();
        if (now - logged < LOG_EVERY_NANOS) {
            unlogged++;
            return;
        }
        LOG.warn("[{}] {}{}", pipeline, text, unlogged > 0 ? " (and " + unlogged + " more)" : "");
        logged = now;
        unlogged = 0;
    }

    /** Makes sure that what was sent has arrived, before the epoch ends. */
    public void flush() {
        if (unlogged > 0) {
            LOG.warn("[{}] and {} more", pipeline, unlogged);
            unlogged = 0;
        }
        if (letters != null) letters.flush();
    }

    /** Throws what Java would have declared. */
    public static void raise(Throwable error) {
        ErrorPolicy.<RuntimeException>sneak(error);
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> void sneak(Throwable error) throws E {
        throw (E) error;
    }
}
