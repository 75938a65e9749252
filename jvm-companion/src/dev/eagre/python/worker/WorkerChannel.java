package dev.eagre.python.worker;

import dev.eagre.commit.Barrier;
import dev.eagre.commit.ReceivedCount;
import dev.eagre.commit.RowCount;
import dev.eagre.python.codec.Codec;
import dev.eagre.python.codec.WireBuffer;
import dev.eagre.shuffle.ReaderThreads;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * Sends the rows of one task to a worker and receives the results. A reader thread reads the rows; the
 * task's own thread waits for the answers. A row is sent immediately, unless an answer is outstanding.
 * Rows that arrive meanwhile are sent together after the answer, so the cost per row falls as the load
 * rises. Nothing waits for a full frame.
 */
public final class WorkerChannel extends AbstractIterator<Object> {
    private static final int FRAME_ROWS = 512;
    private static final int FRAME_BYTES = 1 << 18;

    /** The outcome of a row that a sink could not write for as long as it may try. */
    private static final int SINK_FAILED = 2;

    private static final long FIRST_PAUSE_MS = 100;
    private static final long LONGEST_PAUSE_MS = 5_000;

    private final String key;
    private final WireBuffer hello;
    private final FunctionOptions options;
    private final FunctionErrors failures;
    private final Codec.RowCodec[] arguments;
    private final Codec.RowCodec results;
    private final int passedColumns;
    private final Thread reader;
    private final RowCount sent;
    private final ReceivedCount received;
    private final Deque<Object> answers = new ArrayDeque<>();

    private Worker worker;
    private boolean finished;

    // Guarded by this.
    private WireBuffer pending = new WireBuffer(1 << 14);
    private Deque<InternalRow> waiting = new ArrayDeque<>();
    private WireBuffer frame = new WireBuffer(1 << 14);
    private Deque<InternalRow> inFlightRows = new ArrayDeque<>();
    private boolean awaitingAnswer;
    private boolean listening;
    private boolean ended;
    private Throwable failure;

    public WorkerChannel(
            Iterator<Object> rows,
            WireBuffer hello,
            FunctionOptions options,
            FunctionErrors failures,
            StructType[] arguments,
            StructType results,
            int passedColumns)
            throws IOException {
        this.hello = hello;
        this.key = WorkerPool.key(hello);
        this.options = options;
        this.failures = failures;
        this.passedColumns = passedColumns;
        this.results = new Codec.RowCodec(results);
        this.arguments = new Codec.RowCodec[arguments.length];
        for (int i = 0; i < arguments.length; i++) {
            this.arguments[i] = new Codec.RowCodec(arguments[i]);
        }
        beginFrame(pending);
        worker = WorkerPool.lease(key, hello, options);
        TaskContext task = TaskContext.get();
        sent = Barrier.sentBy(task);
        received = Barrier.receivedBy(task);
        reader = ReaderThreads.start(task, () -> read(rows));
        task.addTaskCompletionListener((TaskCompletionListener) context -> end());
    }

    private static void beginFrame(WireBuffer message) {
        Worker.begin(message);
        message.putInt(0);
    }

    /** The reader thread: reads rows as they arrive, and waits while a frame is full. */
    private void read(Iterator<Object> rows) {
        try {
            while (rows.hasNext()) {
                InternalRow row = (InternalRow) rows.next();
                sent.increment();
                add(row);
            }
            finish(null);
        } catch (Throwable error) {
            failures.blameUpstream();
            finish(error);
        }
    }

    private synchronized void add(InternalRow row) throws InterruptedException {
        while (waiting.size() >= FRAME_ROWS || pending.size() >= FRAME_BYTES) {
            wait();
        }
        encode(row, pending);
        waiting.add(row);
        if (!awaitingAnswer) send();
    }

    private synchronized void finish(Throwable error) {
        ended = true;
        failure = error;
        if (!awaitingAnswer) send();
    }

    private void encode(InternalRow row, WireBuffer out) {
        for (int i = 0; i < arguments.length; i++) {
            arguments[i].write(row.getStruct(passedColumns + i, arguments[i].size()), out);
        }
    }

    /** Sends the waiting rows; an empty frame only wakes the task's thread. */
    private synchronized void send() {
        WireBuffer full = pending;
        pending = frame;
        frame = full;
        Deque<InternalRow> rows = waiting;
        waiting = inFlightRows;
        inFlightRows = rows;
        beginFrame(pending);
        awaitingAnswer = true;
        frame.setInt(4, inFlightRows.size());
        notifyAll();
        if (listening) worker.waiting();
        try {
            worker.send(frame);
        } catch (IOException error) {
            // The worker has exited; the thread that waits for its answer notices and recovers.
        }
    }

    @Override
    public boolean hasNext() {
        if (!answers.isEmpty()) return true;
        received.setIdle(true);
        try {
            while (answers.isEmpty() && !finished) {
                listen();
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error.getMessage(), error);
        }
        if (answers.isEmpty()) return false;
        received.setIdle(false);
        return true;
    }

    @Override
    public Object next() {
        Object row = answers.poll();
        received.increment();
        failures.passOn(provenance((JoinedRow) row));
        return row;
    }

    /** Waits for the next message of the worker. */
    private void listen() throws IOException {
        boolean retire;
        listening(true);
        try {
            WireBuffer message = worker.receive();
            listening(false);
            retire = take(message, inFlight());
        } catch (IOException error) {
            WorkerPool.requireRunning(error);
            recover();
            retire = false;
        }
        if (inFlight().isEmpty()) frameAnswered(retire);
    }

    /** The time limit runs while the task waits for an answer, and not while it passes rows on. */
    private synchronized void listening(boolean now) {
        listening = now;
        if (now && awaitingAnswer) worker.waiting();
        else worker.answered();
    }

    private synchronized Deque<InternalRow> inFlight() {
        return inFlightRows;
    }

    /** Reads the answers of a message; returns whether the worker asks to be replaced. */
    private boolean take(WireBuffer message, Deque<InternalRow> rows) {
        int count = message.takeInt();
        boolean retire = message.takeByte() != 0;
        for (int i = 0; i < count; i++) {
            InternalRow row = rows.poll();
            boolean failedBefore = failures.failedBefore(provenance(row));
            int outcome = message.takeByte();
            if (outcome == SINK_FAILED) throw new SinkFailed(message.takeText());
            if (outcome == 0) {
                InternalRow result = results.read(message);
                if (failedBefore) received.increment();
                else answers.add(new JoinedRow(row, result));
            } else {
                report(row, message.takeText());
            }
        }
        return retire;
    }

    /** Reports a failed row, which is dropped here. */
    private void report(InternalRow row, String reason) {
        failures.report(reason, provenance(row));
        received.increment();
    }

    /** The provenance of a row; null if unknown. */
    private InternalRow provenance(InternalRow row) {
        if (!failures.knowsSource()) return null;
        return row.getStruct(passedColumns + arguments.length, failures.sourceFields());
    }

    /** Called when a frame is answered: sends the next frame, or finishes. */
    private void frameAnswered(boolean retire) throws IOException {
        worker.answered();
        if (retire) replace();
        Throwable failed;
        synchronized (this) {
            awaitingAnswer = false;
            if (!waiting.isEmpty()) {
                send();
                return;
            }
            if (!ended) return;
            finished = true;
            failed = failure;
        }
        failures.flush();
        if (failed != null) ReaderThreads.rethrow(failed);
        WorkerPool.release(worker);
        worker = null;
    }

    private void replace() throws IOException {
        WorkerPool.discard(worker);
        worker = WorkerPool.create(key, hello, options);
    }

    /** Called when the worker died or timed out: a new one gets the unprocessed rows. */
    private void recover() throws IOException {
        Deque<InternalRow> unprocessed;
        synchronized (this) {
            awaitingAnswer = true;
            unprocessed = inFlightRows;
        }
        failures.warn(failures.functions() + " " + worker.failure() + "; a new worker takes over "
                + unprocessed.size() + " rows");
        if (options.isSink()) writeAgain(unprocessed);
        else callAgain(unprocessed);
    }

    /** Sends rows to a function one by one, so that one that ends or stops its worker is found. */
    private void callAgain(Deque<InternalRow> unprocessed) throws IOException {
        replace();
        WireBuffer single = new WireBuffer(1 << 12);
        Deque<InternalRow> singleRow = new ArrayDeque<>();
        while (!unprocessed.isEmpty()) {
            InternalRow row = unprocessed.poll();
            beginFrame(single);
            single.setInt(4, 1);
            encode(row, single);
            singleRow.add(row);
            boolean retire = true;
            try {
                worker.waiting();
                worker.send(single);
                retire = take(worker.receive(), singleRow);
            } catch (IOException error) {
                WorkerPool.requireRunning(error);
                failures.failedBefore(provenance(row));
                report(row, failures.functions() + " " + worker.failure());
                singleRow.clear();
            }
            worker.answered();
            if (retire) replace();
        }
    }

    /** Sends rows to a sink until it has answered all of them, or no attempt has succeeded for too long. */
    private void writeAgain(Deque<InternalRow> unprocessed) throws IOException {
        long began = System.nanoTime();
        long pause = FIRST_PAUSE_MS;
        if (unprocessed.isEmpty()) replace();
        while (!unprocessed.isEmpty()) {
            try {
                replace();
                boolean retire = write(unprocessed);
                if (retire) replace();
            } catch (IOException error) {
                WorkerPool.requireRunning(error);
                worker.answered();
                String reason = failures.functions() + " " + worker.failure();
                if (System.nanoTime() - began > options.retryNanos()) throw new SinkFailed(reason);
                failures.warn(reason + " again");
                pause(pause);
                pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
            }
        }
    }

    /** Sends rows to a sink, and waits for its answers; returns whether the worker asks to be replaced. */
    private boolean write(Deque<InternalRow> rows) throws IOException {
        WireBuffer all = new WireBuffer(1 << 12);
        beginFrame(all);
        all.setInt(4, rows.size());
        rows.forEach(row -> encode(row, all));
        worker.send(all);
        boolean retire = false;
        while (!rows.isEmpty()) {
            worker.waiting();
            retire = take(worker.receive(), rows);
            worker.answered();
        }
        return retire;
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new TaskKilledException("the query has been stopped");
        }
    }

    /** Cleans up when the task has ended, in any way. A sink that is not writing may close its connections. */
    private void end() {
        ReaderThreads.stop(reader);
        if (worker == null) return;
        if (options.isSink() && inFlight().isEmpty()) WorkerPool.dismiss(worker);
        else WorkerPool.discard(worker);
    }
}
