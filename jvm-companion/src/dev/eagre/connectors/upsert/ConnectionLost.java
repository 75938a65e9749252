package dev.eagre.connectors.upsert;

/** The connection is lost, or the server is temporarily unavailable: a retry may succeed. */
public final class ConnectionLost extends Exception {
    public ConnectionLost(String reason) {
        super(reason);
    }
}
