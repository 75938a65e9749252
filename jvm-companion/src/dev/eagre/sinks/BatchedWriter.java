package dev.eagre.sinks;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;

/**
 * The rows of a task on their way, in a thread of its own: the first goes at once, and those that
 * come while a write is under way go together in the next.
 */
final class BatchedWriter {
    private static final int MOST_ROWS = 500;
    private static final int MOST_WAITING = 10 * MOST_ROWS;
    private static final long LOOK_MS = 100;
    private static final Upsert END = new Upsert(List.of(), List.of(), null);

    private final ConnectionPool pool;
    private final BlockingQueue<Upsert> waiting = new ArrayBlockingQueue<>(MOST_WAITING);
    private final Thread thread = new Thread(this::run, "eagre-upserts");
    private volatile RuntimeException failure;

    BatchedWriter(ConnectionPool pool) {
        this.pool = pool;
    }

    void start() {
        thread.setDaemon(true);
        thread.start();
    }

    /** Takes a row; waits while too many do, and fails as soon as one could not be written. */
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

    /** Lets what is not written be: the rows are read again. */
    void abandon() {
        thread.interrupt();
    }

    private void run() {
        try {
            while (write(next())) {}
        } catch (InterruptedException abandoned) {
            // As it was asked to.
        } catch (RuntimeException error) {
            failure = error;
        } catch (Error error) {
            failure = new IllegalStateException(error);
        }
    }

    private List<Upsert> next() throws InterruptedException {
        List<Upsert> rows = new ArrayList<>();
        rows.add(waiting.take());
        waiting.drainTo(rows, MOST_ROWS - 1);
        return rows;
    }

    /** Writes rows, and tells whether more may come. */
    private boolean write(List<Upsert> rows) throws InterruptedException {
        boolean more = !rows.remove(END);
        if (!rows.isEmpty()) {
            pool.work(link -> link.write(rows));
            UpsertWriter.count(rows.size());
        }
        return more;
    }
}
