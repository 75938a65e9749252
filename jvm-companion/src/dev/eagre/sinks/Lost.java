package dev.eagre.sinks;

/** The connection is gone, or the server cannot answer now: another try may succeed. */
final class Lost extends Exception {
    Lost(String reason) {
        super(reason);
    }
}
