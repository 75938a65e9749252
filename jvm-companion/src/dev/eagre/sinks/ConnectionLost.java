package dev.eagre.sinks;

/** The connection is lost, or the server is temporarily unavailable: a retry may succeed. */
final class ConnectionLost extends Exception {
    ConnectionLost(String reason) {
        super(reason);
    }
}
