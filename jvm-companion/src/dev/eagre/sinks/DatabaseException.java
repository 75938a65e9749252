package dev.eagre.sinks;

/** A database that cannot be written to: a code, a sentence, the next step. It has no cause, which could hide it. */
final class DatabaseException extends RuntimeException {
    DatabaseException(String code, String problem, String hint) {
        super(code + ": " + problem + " Hint: " + hint);
    }
}
