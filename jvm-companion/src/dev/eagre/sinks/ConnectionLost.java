package dev.eagre.sinks;

/** The connection is gone, or the server cannot answer now: another try may succeed. */
final class ConnectionLost extends Exception {
    ConnectionLost(String reason) {
        super(reason);
    }
}
