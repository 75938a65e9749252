package dev.eagre.connectors.formats;

import com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.spark.unsafe.types.UTF8String;

/** JSON errors that Spark's parser accepts or does not explain. */
public final class JsonErrors {
    private static final int MAX_LENGTH = 300;

    private JsonErrors() {}

    /** Describes an error in a value before it is parsed; null if there is none. */
    static String fault(byte[] value) {
        if (value == null) return "the record has no value";
        int start = skipWhitespace(value, 0);
        if (start == value.length) return "the value is empty";
        if (value[start] != '{') return utf8(value) ? "the value is not a JSON object" : NOT_UTF8;
        int end = skipWhitespace(value, end(value, start));
        if (!utf8(value)) return NOT_UTF8;
        return end < value.length ? "unexpected data after the JSON object, at byte " + end : null;
    }

    static final String NOT_UTF8 = "the value is not UTF-8";

    static boolean utf8(byte[] value) {
        int signs = 0;
        for (byte next : value) {
            signs |= next;
        }
        return signs >= 0 || UTF8String.fromBytes(value).isValid();
    }

    /** The index of the first byte that is not white space. */
    private static int skipWhitespace(byte[] value, int from) {
        int i = from;
        while (i < value.length && (value[i] == ' ' || value[i] == '\n' || value[i] == '\r' || value[i] == '\t')) {
            i++;
        }
        return i;
    }

    /** The index after the object that starts at an index; the parser reports errors inside it. */
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

    /** The index of the closing quote. */
    private static int quoted(byte[] value, int from) {
        for (int i = from + 1; i < value.length; i++) {
            if (value[i] == '\\') i++;
            else if (value[i] == value[from]) return i;
        }
        return value.length;
    }

    /** The reason why the parser rejected a value, on one line. */
    public static String reason(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && cause.getCause() != cause) {
            cause = cause.getCause();
        }
        String text = cause instanceof JsonProcessingException parser
                ? parser.getOriginalMessage() + place(parser)
                : cause.getMessage() == null ? "" : cause.getMessage();
        String line = text.replaceFirst("^\\[[A-Z0-9_.]+] ", "").replaceFirst(" SQLSTATE: \\w{5}", "");
        line = line.lines().findFirst().orElse(cause.getClass().getSimpleName()).strip();
        return line.length() <= MAX_LENGTH ? line : line.substring(0, MAX_LENGTH) + "…";
    }

    private static String place(JsonProcessingException error) {
        var at = error.getLocation();
        return at == null ? "" : ", line " + at.getLineNr() + " column " + at.getColumnNr();
    }
}
