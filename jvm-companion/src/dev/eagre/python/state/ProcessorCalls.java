package dev.eagre.python.state;

import dev.eagre.python.codec.WireBuffer;
import dev.eagre.python.worker.FunctionOptions;
import dev.eagre.python.worker.Worker;
import dev.eagre.python.worker.WorkerPool;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.ImplicitGroupingKeyTracker;
import org.apache.spark.sql.streaming.TimerValues;

/**
 * The calls of a processor to its worker. Each call contains the values of its keys. While the worker
 * processes it, the worker may request state, which is answered here.
 */
final class ProcessorCalls {
    private static final int ROWS = 1;
    private static final int TIMER = 2;
    private static final int INITIAL = 3;
    private static final int SEVERAL = 4;
    private static final int DONE = 0;
    private static final int WORKING = 2;

    private final FunctionOptions options;
    private final WireBuffer hello;
    private final StateVariables state;
    private final StateVariables.Rows keys;
    private final WireBuffer call = new WireBuffer(1 << 12);
    private final WireBuffer reply = new WireBuffer(1 << 12);
    private final String pool;
    private Worker worker;

    ProcessorCalls(FunctionOptions options, WireBuffer hello, StateVariables state, StateVariables.Rows keys)
            throws IOException {
        this.options = options;
        this.hello = hello;
        this.state = state;
        this.keys = keys;
        pool = WorkerPool.key(hello);
        worker = WorkerPool.lease(pool, hello, options);
    }

    /** Writes a call for rows of one key. */
    void rows(Row group, List<byte[]> rows, TimerValues times) {
        begin(ROWS, group, times);
        call.putInt(rows.size());
        rows.forEach(call::putBlock);
    }

    /** Writes a call for rows of several keys; {@code keyIndexes} has the index of each row's key. */
    void several(List<Row> groups, List<Integer> keyIndexes, List<byte[]> rows, TimerValues times) {
        writeHeader(SEVERAL, times);
        call.putInt(groups.size());
        for (Row key : groups) {
            ImplicitGroupingKeyTracker.setImplicitKey(key);
            state.write(call);
            keys.write(key, call);
        }
        call.putInt(rows.size());
        for (int i = 0; i < rows.size(); i++) {
            call.putInt(keyIndexes.get(i));
            call.putBlock(rows.get(i));
        }
    }

    /** Writes a call for an expired timer. */
    void timer(Row group, long expiryMs, TimerValues times) {
        begin(TIMER, group, times);
        call.putLong(expiryMs);
    }

    /** Writes a call for a row of the initial state. */
    void initial(Row group, byte[] row, TimerValues times) {
        begin(INITIAL, group, times);
        call.putBlock(row);
    }

    private void begin(int kind, Row group, TimerValues times) {
        writeHeader(kind, times);
        state.write(call);
        keys.write(group, call);
    }

    private void writeHeader(int kind, TimerValues times) {
        Worker.begin(call);
        call.putByte(kind);
        call.putLong(times.getCurrentProcessingTimeInMs());
        call.putLong(times.getCurrentWatermarkInMs());
    }

    /**
     * Sends the call and answers state requests until the worker is done.
     *
     * @param groups the keys of a call for several keys, to which a state request refers; otherwise empty
     */
    WireBuffer exchange(List<Row> groups) throws IOException {
        worker.waiting();
        worker.send(call);
        WireBuffer message = worker.receive();
        for (int kind = message.takeByte(); kind != DONE; kind = message.takeByte()) {
            if (kind == WORKING) {
                worker.waiting();
                message = worker.receive();
                continue;
            }
            int keyIndex = message.takeInt();
            if (!groups.isEmpty()) ImplicitGroupingKeyTracker.setImplicitKey(groups.get(keyIndex));
            Worker.begin(reply);
            state.answer(message, reply);
            worker.waiting();
            worker.send(reply);
            message = worker.receive();
        }
        worker.answered();
        return message;
    }

    String failure() {
        return worker.failure();
    }

    /** Replaces the worker by a new one. */
    void replace() {
        try {
            WorkerPool.discard(worker);
            worker = WorkerPool.create(pool, hello, options);
        } catch (IOException error) {
            throw new UncheckedIOException(error.getMessage(), error);
        }
    }

    /** Returns the worker to the pool. */
    void release() {
        if (worker != null) WorkerPool.release(worker);
        worker = null;
    }

    /** Cleans up when the task has ended, in any way. */
    void discard() {
        if (worker != null) WorkerPool.discard(worker);
        worker = null;
    }
}
