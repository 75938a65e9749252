package dev.eagre.sinks;

/** A database that cannot be written to: code, problem and hint. It has no cause, which could hide the message. */
final class DatabaseException extends RuntimeException {
    DatabaseException(String code, String problem, String hint) {
        super(code + ": " + problem + " Hint: " + hint);
    }
}
