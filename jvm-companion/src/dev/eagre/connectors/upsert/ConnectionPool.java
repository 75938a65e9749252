package dev.eagre.connectors.upsert;

import dev.eagre.connectors.upsert.Database.Link;
import java.util.Map;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/** The connections of this JVM to one database; they outlive the writers of an epoch. */
final class ConnectionPool {
    private static final Map<String, ConnectionPool> POOLS = new ConcurrentHashMap<>();
    private static final long PATIENCE_MS = 30_000;
    private static final long FIRST_PAUSE_MS = 10;
    private static final long LONGEST_PAUSE_MS = 1_000;

    private final Database database;
    private final Queue<Link> idle = new ConcurrentLinkedQueue<>();
    private UUID prepared;

    /** An action on a connection. */
    interface Work {
        void with(Link link) throws ConnectionLost;
    }

    private ConnectionPool(Database database) {
        this.database = database;
    }

    static ConnectionPool of(String spec) {
        return POOLS.computeIfAbsent(spec, text -> new ConnectionPool(Database.of(Database.read(text))));
    }

    /** Checks once per query that rows can be written. */
    synchronized void prepare(UUID query) throws InterruptedException {
        if (query.equals(prepared)) return;
        work(Link::prepare);
        prepared = query;
    }

    /**
     * Runs an action on a connection. While the server is unavailable, it retries on new connections for half a
     * minute. Rows are versioned, so a write that was not acknowledged can be repeated safely.
     */
    void work(Work work) throws InterruptedException {
        long since = System.nanoTime();
        long pause = FIRST_PAUSE_MS;
        while (true) {
            ConnectionLost reason = attempt(work);
            if (reason == null) return;
            if (System.nanoTime() - since > PATIENCE_MS * 1_000_000) throw gone(reason);
            Thread.sleep(pause);
            pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
        }
    }

    private ConnectionLost attempt(Work work) {
        Link link = idle.poll();
        try {
            if (link == null) link = database.connect();
            work.with(link);
        } catch (ConnectionLost reason) {
            if (link != null) link.close();
            forget();
            return reason;
        } catch (RuntimeException | Error error) {
            if (link != null) link.close();
            throw error;
        }
        idle.add(link);
        return null;
    }

    /** Closes the idle connections, which are lost as well. */
    private void forget() {
        for (Link link = idle.poll(); link != null; link = idle.poll()) {
            link.close();
        }
    }

    private DatabaseException gone(ConnectionLost reason) {
        return new DatabaseException(
                "DATABASE_LOST",
                database.name() + " did not accept rows for " + PATIENCE_MS / 1000 + " s: " + reason.getMessage() + ".",
                "restart the pipeline when the server is back: it continues from the last commit.");
    }
}
