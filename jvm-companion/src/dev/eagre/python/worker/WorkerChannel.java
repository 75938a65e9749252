package dev.eagre.python.worker;

import dev.eagre.commit.Barrier;
import dev.eagre.python.codec.Codec;
import dev.eagre.python.codec.WireBuffer;
import dev.eagre.shuffle.ReaderThreads;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * Rows of one task to a worker and back. A thread reads the rows; the task's own thread waits for the
 * answers. A row goes out as soon as it is there, unless an answer is awaited: rows that come
 * meanwhile go out together when it has come, so that the cost of a row falls as the load rises.
 * Nothing waits to fill anything, and nothing grows beyond a frame.
 */
public final class WorkerChannel extends AbstractIterator<Object> {
    private static final int FRAME_ROWS = 512;
    private static final int FRAME_BYTES = 1 << 18;

    private final String key;
    private final WireBuffer hello;
    private final FunctionOptions options;
    private final FunctionErrors failures;
    private final Codec.RowCodec[] arguments;
    private final Codec.RowCodec results;
    private final int passed;
    private final Thread reader;
    private final Barrier.RowCount leaving;
    private final Barrier.ReceivedCount arriving;
    private final Deque<Object> answers = new ArrayDeque<>();

    private Worker worker;
    private boolean finished;

    // Guarded by this.
    private WireBuffer pending = new WireBuffer(1 << 14);
    private Deque<InternalRow> gathered = new ArrayDeque<>();
    private WireBuffer frame = new WireBuffer(1 << 14);
    private Deque<InternalRow> flying = new ArrayDeque<>();
    private boolean awaited;
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
            int passed)
            throws IOException {
        this.hello = hello;
        this.key = WorkerPool.key(hello);
        this.options = options;
        this.failures = failures;
        this.passed = passed;
        this.results = new Codec.RowCodec(results);
        this.arguments = new Codec.RowCodec[arguments.length];
        for (int i = 0; i < arguments.length; i++) {
            this.arguments[i] = new Codec.RowCodec(arguments[i]);
        }
        begin(pending);
        worker = WorkerPool.lease(key, hello, options);
        TaskContext task = TaskContext.get();
        leaving = Barrier.sentBy(task);
        arriving = Barrier.receivedBy(task);
        reader = ReaderThreads.start(task, () -> read(rows));
        task.addTaskCompletionListener((TaskCompletionListener) context -> end());
    }

    private static void begin(WireBuffer message) {
        Worker.begin(message);
        message.putInt(0);
    }

    /** The reading thread: takes rows as they come, and waits while a frame is full. */
    private void read(Iterator<Object> rows) {
        try {
            while (rows.hasNext()) {
                InternalRow row = (InternalRow) rows.next();
                leaving.increment();
                gather(row);
            }
            finish(null);
        } catch (Throwable error) {
            failures.upstream();
            finish(error);
        }
    }

    private synchronized void gather(InternalRow row) throws InterruptedException {
        while (gathered.size() >= FRAME_ROWS || pending.size() >= FRAME_BYTES) {
            wait();
        }
        encode(row, pending);
        gathered.add(row);
        if (!awaited) send();
    }

    private synchronized void finish(Throwable error) {
        ended = true;
        failure = error;
        if (!awaited) send();
    }

    private void encode(InternalRow row, WireBuffer out) {
        for (int i = 0; i < arguments.length; i++) {
            arguments[i].write(row.getStruct(passed + i, arguments[i].size()), out);
        }
    }

    /** Sends what was gathered; an empty frame only wakes the task's thread. */
    private synchronized void send() {
        WireBuffer sent = pending;
        pending = frame;
        frame = sent;
        Deque<InternalRow> rows = gathered;
        gathered = flying;
        flying = rows;
        begin(pending);
        awaited = true;
        frame.setInt(4, flying.size());
        notifyAll();
        if (listening) worker.waiting();
        try {
            worker.send(frame);
        } catch (IOException error) {
            // The worker is gone; whoever waits for its answer finds out and begins again.
        }
    }

    @Override
    public boolean hasNext() {
        if (!answers.isEmpty()) return true;
        arriving.setIdle(true);
        try {
            while (answers.isEmpty() && !finished) {
                listen();
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error.getMessage(), error);
        }
        if (answers.isEmpty()) return false;
        arriving.setIdle(false);
        return true;
    }

    @Override
    public Object next() {
        Object row = answers.poll();
        arriving.increment();
        failures.handOn(origin((JoinedRow) row));
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
        if (inFlight().isEmpty()) land(retire);
    }

    /** The time limit runs while the task waits for an answer, and not while it hands rows on. */
    private synchronized void listening(boolean begins) {
        listening = begins;
        if (begins && awaited) worker.waiting();
        else worker.answered();
    }

    private synchronized Deque<InternalRow> inFlight() {
        return flying;
    }

    /** Takes the answers of a message; tells whether the worker asks to be replaced. */
    private boolean take(WireBuffer message, Deque<InternalRow> rows) {
        int count = message.takeInt();
        boolean retire = message.takeByte() != 0;
        for (int i = 0; i < count; i++) {
            InternalRow row = rows.poll();
            boolean before = failures.endedBefore(origin(row));
            if (message.takeByte() == 0) {
                InternalRow result = results.read(message);
                if (before) arriving.increment();
                else answers.add(new JoinedRow(row, result));
            } else {
                report(row, message.takeText());
            }
        }
        return retire;
    }

    /** The row ends here. */
    private void report(InternalRow row, String reason) {
        failures.report(reason, origin(row));
        arriving.increment();
    }

    /** Where a row comes from; null if it does not say. */
    private InternalRow origin(InternalRow row) {
        if (!failures.knowsSource()) return null;
        return row.getStruct(passed + arguments.length, failures.sourceFields());
    }

    /** A frame is answered: sends the next, or ends. */
    private void land(boolean retire) throws IOException {
        worker.answered();
        if (retire) replace();
        Throwable failed;
        synchronized (this) {
            awaited = false;
            if (!gathered.isEmpty()) {
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
        worker = WorkerPool.fresh(key, hello, options);
    }

    /** The worker died or was late: a new one gets the unanswered rows, one by one. */
    private void recover() throws IOException {
        Deque<InternalRow> unanswered;
        synchronized (this) {
            awaited = true;
            unanswered = flying;
        }
        failures.warn(failures.functions() + " " + worker.obituary() + "; a new worker takes over "
                + unanswered.size() + " rows");
        replace();
        WireBuffer single = new WireBuffer(1 << 12);
        Deque<InternalRow> alone = new ArrayDeque<>();
        while (!unanswered.isEmpty()) {
            InternalRow row = unanswered.poll();
            begin(single);
            single.setInt(4, 1);
            encode(row, single);
            alone.add(row);
            boolean retire = true;
            try {
                worker.waiting();
                worker.send(single);
                retire = take(worker.receive(), alone);
            } catch (IOException error) {
                WorkerPool.requireRunning(error);
                failures.endedBefore(origin(row));
                report(row, failures.functions() + " " + worker.obituary());
                alone.clear();
            }
            worker.answered();
            if (retire) replace();
        }
    }

    /** The task is over, however it went. */
    private void end() {
        ReaderThreads.stop(reader);
        if (worker != null) WorkerPool.discard(worker);
    }
}
