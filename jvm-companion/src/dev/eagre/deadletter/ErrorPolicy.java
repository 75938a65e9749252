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
 * Applies the user's error policy to the rows of one task that cannot be processed. Its JSON has
 * {@code pipeline}, {@code on_error} ({@code dead-letter}, {@code drop} or {@code fail}),
 * {@code dead_letters}, which is null without a dead-letter topic, and {@code run}, which is null
 * without exactly-once delivery.
 */
public final class ErrorPolicy {
    private static final Logger LOG = LoggerFactory.getLogger("dev.eagre.deadletter");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long LOG_EVERY_NANOS = 1_000_000_000L;

    private final String pipeline;
    private final String onError;
    private final TaskDeadLetters deadLetters;
    private final EarlierDeadLetters earlier;
    private long logged = System.nanoTime() - LOG_EVERY_NANOS;
    private long unlogged;

    /** @param site what writes the dead letters: a function, the source, or the sink */
    public ErrorPolicy(JsonNode json, String site) {
        pipeline = json.get("pipeline").asText();
        onError = json.get("on_error").asText();
        JsonNode topics = json.path("dead_letters");
        deadLetters = topics.isObject() ? new TaskDeadLetters(pipeline, new DeadLetterTopics(topics)) : null;
        earlier = exact(json) ? new EarlierDeadLetters(json.get("run"), site) : null;
    }

    /** A policy for the current task, which waits at its end until its dead letters are delivered. */
    static ErrorPolicy forThisTask(JsonNode json, String site) {
        ErrorPolicy policy = new ErrorPolicy(json, site);
        TaskContext task = TaskContext.get();
        if (task == null) return policy;
        task.addTaskCompletionListener((TaskCompletionListener) context -> {
            if (!context.isFailed() && !context.isInterrupted()) policy.flush();
        });
        return policy;
    }

    /** Whether the pipeline delivers exactly once. */
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

    /** Whether the rows of a record must be numbered, to identify those that failed in an earlier run. */
    public boolean needsOrdinals() {
        return earlier != null;
    }

    /** Whether earlier runs wrote dead letters for rows that are read again now. */
    public boolean hasEarlier() {
        return earlier != null && !earlier.isEmpty();
    }

    /** Whether an earlier run wrote a dead letter for this row. */
    public boolean alreadyWritten(RecordPosition position, int ordinal) {
        return hasEarlier() && position != null && earlier.holds(position, ordinal);
    }

    /**
     * Applies the policy.
     *
     * @param code the error code of the query, if the policy is to fail
     * @param ordinal the number of the row within its record
     */
    public void apply(String code, DeadLetter letter, int ordinal) {
        if (onError.equals("fail")) raise(new SparkException(code + ": " + describe(letter)));
        if (onError.equals("drop") || deadLetters == null) {
            RowCounters.add(pipeline, "dropped");
            warn(brief(letter) + "; the row is dropped");
        } else {
            send(letter, ordinal);
        }
    }

    /** Sends a dead letter, regardless of the policy. */
    void send(DeadLetter letter, int ordinal) {
        if (alreadyWritten(letter.position(), ordinal)) return;
        boolean withIdentity = earlier != null && letter.position() != null;
        write(withIdentity ? letter.withIdentity(earlier.identity(letter.position(), ordinal)) : letter);
    }

    private void write(DeadLetter letter) {
        RowCounters.add(pipeline, "dead-lettered");
        warn(brief(letter) + "; it goes to " + deadLetters.send(letter));
    }

    private static String describe(DeadLetter letter) {
        return letter.reason() + at(letter);
    }

    /** A text without record contents, which a parser's message may quote. */
    private static String brief(DeadLetter letter) {
        return letter.reason().startsWith("UNPARSABLE") ? "UNPARSABLE" + at(letter) : describe(letter);
    }

    private static String at(DeadLetter letter) {
        return letter.position() == null ? "" : " for the record " + letter.position();
    }

    /** Logs a warning at most once a second, with the number of suppressed ones. */
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

    /** Waits until all dead letters are delivered, before the epoch ends. */
    public void flush() {
        if (unlogged > 0) {
            LOG.warn("[{}] and {} more", pipeline, unlogged);
            unlogged = 0;
        }
        if (deadLetters != null) deadLetters.flush();
    }

    /** Throws a checked exception without declaring it. */
    public static void raise(Throwable error) {
        ErrorPolicy.<RuntimeException>sneak(error);
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> void sneak(Throwable error) throws E {
        throw (E) error;
    }
}
