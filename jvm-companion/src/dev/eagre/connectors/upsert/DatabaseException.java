package dev.eagre.connectors.upsert;

/** A database that cannot be written to: code, problem and hint. It has no cause, which could hide the message. */
public class DatabaseException extends RuntimeException {
    public DatabaseException(String code, String problem, String hint) {
        super(code + ": " + problem + " Hint: " + hint);
    }
}
