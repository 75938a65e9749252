package dev.eagre.python;

import org.apache.spark.SparkException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What becomes of rows that a function could not handle: the rule that the user chose. */
final class Failures {
    private static final Logger LOG = LoggerFactory.getLogger("dev.eagre.python");
    private static final long LOG_EVERY_NANOS = 1_000_000_000L;

    private final Options options;
    private final String functions;
    private final StructType source;
    private final DeadLetters letters;
    private long logged = System.nanoTime() - LOG_EVERY_NANOS;
    private long unlogged;

    Failures(Options options, String functions, DataType source) {
        this.options = options;
        this.functions = functions;
        this.source = source instanceof StructType struct ? struct : null;
        boolean sends = options.onError().equals("dead-letter") && options.hasDeadLetters();
        letters = sends ? new DeadLetters(options) : null;
    }

    boolean knowsSource() {
        return source != null;
    }

    int sourceFields() {
        return source.length();
    }

    /** What they are called, where it is not known which of them it was. */
    String functions() {
        return functions;
    }

    /** Applies the rule to a row. */
    void report(String reason, InternalRow origin) {
        String position = position(origin);
        String told = reason + (position.isEmpty() ? "" : " for the record " + position);
        if (options.onError().equals("fail")) {
            Readers.rethrow(new SparkException("PYTHON_FUNCTION_FAILED: " + told));
        }
        Counters.add(options.pipeline(), letters == null ? "dropped" : "dead-lettered");
        if (letters == null) {
            warn(told + "; the row is dropped");
            return;
        }
        String topic = options.deadLetters(position.isEmpty() ? null : position.split("/")[0]);
        letters.send(topic, reason, position);
        warn(told + "; it is noted in " + topic);
    }

    /** Says something at most once a second, and how much was left unsaid. */
    void warn(String text) {
        long now = System.nanoTime();
        if (now - logged < LOG_EVERY_NANOS) {
            unlogged++;
            return;
        }
        LOG.warn("[{}] {}{}", options.pipeline(), text, unlogged > 0 ? " (and " + unlogged + " more)" : "");
        logged = now;
        unlogged = 0;
    }

    /** Makes sure that what was sent has arrived, before the epoch ends. */
    void flush() {
        if (unlogged > 0) {
            LOG.warn("[{}] and {} more", options.pipeline(), unlogged);
            unlogged = 0;
        }
        if (letters != null) letters.flush();
    }

    void close() {
        if (letters != null) letters.close();
    }

    /** Where a row comes from: topic/partition/offset. */
    private String position(InternalRow origin) {
        if (origin == null || source == null) return "";
        StringBuilder text = new StringBuilder();
        for (String field : new String[] {"topic", "partition", "offset"}) {
            int place = source.getFieldIndex(field).isDefined() ? source.fieldIndex(field) : -1;
            if (place < 0 || origin.isNullAt(place)) return "";
            text.append(text.isEmpty() ? "" : "/").append(origin.get(place, source.apply(place).dataType()));
        }
        return text.toString();
    }
}
