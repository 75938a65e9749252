package dev.eagre.connectors.upsert;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.function.IntConsumer;

/**
 * Writes the rows of a task in its own thread. The first row is written immediately; rows that arrive
 * during a write go together into the next one.
 */
final class BatchedWriter {
    private static final int MOST_ROWS = 500;
    private static final int MOST_WAITING = 10 * MOST_ROWS;
    private static final long LOOK_MS = 100;
    private static final Upsert END = new Upsert(List.of(), List.of(), null, null);

    private final ConnectionPool pool;
    private final IntConsumer written;
    private final BlockingQueue<Upsert> waiting = new ArrayBlockingQueue<>(MOST_WAITING);
    private final Thread thread = new Thread(this::run, "eagre-upserts");
    private volatile WriteFailed failure;

    /** @param written receives the number of rows of each write that the database accepted */
    BatchedWriter(ConnectionPool pool, IntConsumer written) {
        this.pool = pool;
        this.written = written;
    }

    void start() {
        thread.setDaemon(true);
        thread.start();
    }

    /** Adds a row; blocks while too many rows are waiting, and fails once a write has failed. */
    void add(Upsert row) throws InterruptedException {
        do {
            if (failure != null) throw failure;
        } while (!waiting.offer(row, LOOK_MS, MILLISECONDS));
    }

    /** Waits until every row is written. */
    void finish() throws InterruptedException {
        add(END);
        thread.join();
        if (failure != null) throw failure;
    }

    /** Discards rows that are not written yet; they will be read again. */
    void abandon() {
        thread.interrupt();
    }

    private void run() {
        try {
            while (write(next())) {}
        } catch (InterruptedException abandoned) {
            // Stopped by request.
        } catch (RuntimeException | Error error) {
            failure = error instanceof WriteFailed known ? known : new WriteFailed(error, null);
        }
    }

    private List<Upsert> next() throws InterruptedException {
        List<Upsert> rows = new ArrayList<>();
        rows.add(waiting.take());
        waiting.drainTo(rows, MOST_ROWS - 1);
        return rows;
    }

    /** Writes rows, and returns whether more rows may follow. */
    private boolean write(List<Upsert> rows) throws InterruptedException {
        boolean more = !rows.remove(END);
        if (!rows.isEmpty()) deliver(rows);
        return more;
    }

    /** Delivers rows; one by one if the database refuses one of them, to find its record. */
    private void deliver(List<Upsert> rows) throws InterruptedException {
        try {
            pool.work(link -> link.write(rows));
            written.accept(rows.size());
        } catch (RowRefused refused) {
            if (rows.size() == 1) throw new WriteFailed(refused, rows.get(0).record());
            for (Upsert row : rows) {
                deliver(List.of(row));
            }
        }
    }
}
