package dev.eagre.connectors.formats;

/** What a format checks in a value before Spark parses it. */
public interface ValueFormat {
    /** Describes an error in a value; null if there is none, or if the parser finds it. */
    String fault(byte[] value);

    /** The checks of a format; a format that is unknown here leaves them to its parser. */
    static ValueFormat named(String name) {
        return switch (name) {
            case "json" -> JsonErrors::fault;
            case "string" -> value -> value == null || JsonErrors.utf8(value) ? null : JsonErrors.NOT_UTF8;
            default -> value -> null;
        };
    }
}
