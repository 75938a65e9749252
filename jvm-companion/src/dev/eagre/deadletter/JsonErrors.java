package dev.eagre.deadletter;

import com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.spark.unsafe.types.UTF8String;

/** What Spark's parser lets pass, or does not say. */
final class JsonErrors {
    private static final int SHOWN = 300;

    private JsonErrors() {}

    /** What is wrong with a value before it is parsed, in words; null if nothing is. */
    static String fault(byte[] value) {
        if (value == null) return "the record has no value";
        int begin = blank(value, 0);
        if (begin == value.length) return "the value is empty";
        if (value[begin] != '{') return utf8(value) ? "the value is not a JSON object" : NOT_UTF8;
        int end = blank(value, end(value, begin));
        if (!utf8(value)) return NOT_UTF8;
        return end < value.length ? "something follows the JSON object, at byte " + end : null;
    }

    static final String NOT_UTF8 = "the value is not UTF-8";

    static boolean utf8(byte[] value) {
        int signs = 0;
        for (byte one : value) {
            signs |= one;
        }
        return signs >= 0 || UTF8String.fromBytes(value).isValid();
    }

    /** The first byte that is no white space. */
    private static int blank(byte[] value, int from) {
        int i = from;
        while (i < value.length && (value[i] == ' ' || value[i] == '\n' || value[i] == '\r' || value[i] == '\t')) {
            i++;
        }
        return i;
    }

    /** The byte after the object that begins at a byte; the parser tells what is wrong inside of it. */
    private static int end(byte[] value, int from) {
        int depth = 0;
        for (int i = from; i < value.length; i++) {
            switch (value[i]) {
                case '{', '[' -> depth++;
                case '}', ']' -> {
                    if (--depth == 0) return i + 1;
                }
                case '"', '\'' -> i = quoted(value, i);
                default -> {}
            }
        }
        return value.length;
    }

    /** The byte with which a text in quotes ends. */
    private static int quoted(byte[] value, int from) {
        for (int i = from + 1; i < value.length; i++) {
            if (value[i] == '\\') i++;
            else if (value[i] == value[from]) return i;
        }
        return value.length;
    }

    /** Why the parser did not take a value, in one line. */
    static String reason(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && cause.getCause() != cause) {
            cause = cause.getCause();
        }
        String text = cause instanceof JsonProcessingException parser
                ? parser.getOriginalMessage() + place(parser)
                : cause.getMessage() == null ? "" : cause.getMessage();
        String line = text.replaceFirst("^\\[[A-Z0-9_.]+] ", "").replaceFirst(" SQLSTATE: \\w{5}", "");
        line = line.lines().findFirst().orElse(cause.getClass().getSimpleName()).strip();
        return line.length() <= SHOWN ? line : line.substring(0, SHOWN) + "…";
    }

    private static String place(JsonProcessingException error) {
        var at = error.getLocation();
        return at == null ? "" : ", line " + at.getLineNr() + " column " + at.getColumnNr();
    }
}
