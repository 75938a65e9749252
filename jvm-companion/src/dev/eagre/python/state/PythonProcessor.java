package dev.eagre.python.state;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.deadletter.ErrorPolicy;
import dev.eagre.python.codec.Codec;
import dev.eagre.python.codec.WireBuffer;
import dev.eagre.python.worker.FunctionErrors;
import dev.eagre.python.worker.FunctionOptions;
import dev.eagre.python.worker.WorkerPool;
import dev.eagre.shuffle.Prefetch;
import dev.eagre.spark.RowSteps;
import dev.eagre.state.TimerDriven;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.ImplicitGroupingKeyTracker;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessorWithInitialState;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A Python {@code StatefulProcessor} in Spark's operator. Each call sends the key's values to a worker,
 * which returns outputs and changes. The changes are then applied to Spark's state store.
 *
 * <p>The last column of its rows is the row as bytes. Null is a tick, which only makes Spark check its
 * timers.
 */
public final class PythonProcessor extends StatefulProcessorWithInitialState<Row, Row, byte[], Row> implements TimerDriven {
    private static final int MAX_PREFETCHED = 64;
    private static final int MAX_ROWS = 10_000;

    private final String optionsText;
    private final String declared;
    private final byte[] code;
    private final StructType key;
    private final StructType input;
    private final long tickMs;
    private final String id = UUID.randomUUID().toString();

    private transient FunctionOptions options;
    private transient String label;
    private transient FunctionErrors failures;
    private transient StateVariables state;
    private transient KeyAlignment alignment;
    private transient StateVariables.Rows keys;
    private transient Codec.RowCodec inputs;
    private transient ProcessorCalls calls;
    private transient int source;
    private transient Prefetch prefetch;
    private transient Deque<Prepared> prepared;
    private transient int singly;
    private transient String timerCall;

    PythonProcessor(
            String options, String declared, byte[] code, StructType key, StructType input, long tickMs) {
        this.optionsText = options;
        this.declared = declared;
        this.code = code;
        this.key = key;
        this.input = input;
        this.tickMs = tickMs;
    }

    @Override
    public String id() {
        return id;
    }

    @Override
    public long tickMs() {
        return tickMs;
    }

    /** Spark removes expired state at epoch boundaries, and computes its age from the start of an epoch. */
    @Override
    public boolean needsEpochs() {
        try {
            for (JsonNode variable : FunctionOptions.JSON.readTree(declared).get("variables")) {
                if (!variable.get("ttl_ms").isNull()) return true;
            }
            return false;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        try {
            JsonNode spec = FunctionOptions.JSON.readTree(declared);
            options = new FunctionOptions(optionsText);
            state = new StateVariables(getHandle(), spec, timeMode.equals(TimeMode.ProcessingTime()));
            alignment = ErrorPolicy.exact(options.json) ? new KeyAlignment(getHandle()) : null;
            TaskContext task = TaskContext.get();
            if (task == null) return;
            open((ObjectNode) spec);
            task.addTaskCompletionListener((TaskCompletionListener) context -> calls.discard());
        } catch (IOException error) {
            throw new UncheckedIOException(error.getMessage(), error);
        }
    }

    private void open(ObjectNode spec) throws IOException {
        source = input.getFieldIndex(RowSteps.SOURCE).isDefined() ? input.fieldIndex(RowSteps.SOURCE) : -1;
        label = spec.get("label").asText();
        failures = new FunctionErrors(options, label, source < 0 ? null : input.apply(source).dataType());
        keys = new StateVariables.Rows(key);
        inputs = new Codec.RowCodec(input);
        ObjectNode message = options.forWorker();
        message.setAll(spec);
        // A worker of another run is not reused, because its memory belongs to that run.
        message.put("run", getHandle().getQueryInfo().getRunId().toString());
        message.putArray("names").add(label);
        message.set("key", FunctionOptions.JSON.readTree(key.json()));
        message.putArray("arguments").add(FunctionOptions.JSON.readTree(input.json()));
        calls = new ProcessorCalls(options, FunctionOptions.hello(message, code), state, keys);
        prefetch = Prefetch.of(id, TaskContext.get());
        prepared = new ArrayDeque<>();
    }

    /** A row that was processed before Spark requested it. */
    private record Prepared(byte[] row, ByteBuffer key, List<byte[]> outputs) {}

    @Override
    public Iterator<byte[]> handleInputRows(Row group, Iterator<Row> rows, TimerValues times) {
        if (prefetch != null) {
            Row first = rows.next();
            if (!rows.hasNext()) return iterator(single(group, bytes(first), times));
            List<Row> all = new ArrayList<>(List.of(first));
            while (rows.hasNext()) all.add(rows.next());
            return grouped(group, CollectionConverters.asScala(all.iterator()), times);
        }
        return grouped(group, rows, times);
    }

    /** Processes one row, as in real time: it is already processed, or is sent together with the waiting rows. */
    private List<byte[]> single(Row group, byte[] row, TimerValues times) {
        if (row == null || isSkipped(group, row)) return List.of();
        Prepared first = prepared.poll();
        if (first != null) {
            if (!Arrays.equals(first.row, row)) throw new IllegalStateException("rows out of order");
            return first.outputs;
        }
        List<InternalRow> waiting = singly > 0 ? List.of() : prefetch.waiting(MAX_PREFETCHED);
        singly = Math.max(0, singly - 1);
        if (waiting.isEmpty()) return rows(group, List.of(row), times);
        try {
            return several(group, row, waiting, times);
        } catch (IOException error) {
            replaceWorker(error);
            singly = waiting.size();
        } finally {
            ImplicitGroupingKeyTracker.setImplicitKey(group);
        }
        return rows(group, List.of(row), times);
    }

    /**
     * Sends a row and the rows that wait after it: each key's values once, then the rows. If the worker dies,
     * nothing has changed, and each row is sent separately.
     */
    private List<byte[]> several(Row group, byte[] row, List<InternalRow> waiting, TimerValues times)
            throws IOException {
        List<byte[]> data = new ArrayList<>(List.of(row));
        List<Integer> keyIndexes = new ArrayList<>(List.of(0));
        List<Row> groups = new ArrayList<>(List.of(group));
        Map<ByteBuffer, Integer> indexes = new HashMap<>(Map.of(keys.bytes(group), 0));
        for (InternalRow next : waiting) {
            if (failedBefore(next.getBinary(next.numFields() - 1))) continue;
            InternalRow other = keyOf(next);
            Integer keyIndex = indexes.putIfAbsent(keys.bytes(other), groups.size());
            if (keyIndex == null) groups.add(keys.read(other));
            keyIndexes.add(keyIndex == null ? groups.size() - 1 : keyIndex);
            data.add(next.getBinary(next.numFields() - 1));
        }
        calls.several(groups, keyIndexes, data, times);
        WireBuffer answer = calls.exchange(groups);
        boolean retire = answer.takeByte() != 0;
        List<byte[]> outputs = null;
        for (int i = 0; i < data.size(); i++) {
            ImplicitGroupingKeyTracker.setImplicitKey(groups.get(keyIndexes.get(i)));
            List<byte[]> results = settle(answer, data.subList(i, i + 1), times.getCurrentProcessingTimeInMs());
            if (i == 0) outputs = results;
            else prepared.add(new Prepared(data.get(i), keys.bytes(groups.get(keyIndexes.get(i))), results));
        }
        if (retire) calls.replace();
        return outputs;
    }

    private InternalRow keyOf(InternalRow row) {
        Object[] values = new Object[key.length()];
        for (int i = 0; i < values.length; i++) {
            values[i] = row.isNullAt(i) ? null : row.get(i, key.apply(i).dataType());
        }
        return new GenericInternalRow(values);
    }

    private Iterator<byte[]> grouped(Row group, Iterator<Row> rows, TimerValues times) {
        List<byte[]> outputs = new ArrayList<>();
        List<byte[]> batch = new ArrayList<>();
        while (rows.hasNext()) {
            byte[] row = bytes(rows.next());
            if (row != null && !isSkipped(group, row)) batch.add(row);
            if (batch.size() == MAX_ROWS || (!batch.isEmpty() && !rows.hasNext())) {
                outputs.addAll(rows(group, batch, times));
                batch = new ArrayList<>();
            }
        }
        return iterator(outputs);
    }

    /** Whether an earlier run wrote a dead letter for a row; checks the partition of other rows. */
    private boolean isSkipped(Row group, byte[] row) {
        if (alignment == null || source < 0) return false;
        if (failedBefore(row)) return true;
        alignment.require(keys.bytes(group), failures.partition(provenance(row)));
        return false;
    }

    private boolean failedBefore(byte[] row) {
        return source >= 0 && failures.hasEarlier() && failures.alreadyWritten(provenance(row));
    }

    private InternalRow provenance(byte[] row) {
        return inputs.fromBytes(row).getStruct(source, failures.sourceFields());
    }

    private List<byte[]> rows(Row group, List<byte[]> rows, TimerValues times) {
        calls.rows(group, rows, times);
        try {
            return send(rows, times.getCurrentProcessingTimeInMs());
        } catch (IOException error) {
            replaceWorker(error);
        }
        List<byte[]> outputs = new ArrayList<>();
        for (byte[] row : rows) {
            outputs.addAll(retry(group, row, times));
        }
        return outputs;
    }

    private void replaceWorker(IOException error) {
        WorkerPool.requireRunning(error);
        failures.warn(label + " " + calls.failure() + "; a new worker takes over");
        calls.replace();
    }

    /** Retries a single row in a new worker. */
    private List<byte[]> retry(Row group, byte[] row, TimerValues times) {
        calls.rows(group, List.of(row), times);
        return lastAttempt(List.of(row), times.getCurrentProcessingTimeInMs());
    }

    private List<byte[]> lastAttempt(List<byte[]> rows, long now) {
        try {
            return send(rows, now);
        } catch (IOException error) {
            WorkerPool.requireRunning(error);
            report(label + " " + calls.failure(), rows, 0);
            calls.replace();
            return List.of();
        }
    }

    @Override
    public Iterator<byte[]> handleExpiredTimer(Row group, TimerValues times, ExpiredTimerInfo timer) {
        List<byte[]> outputs = preparedOutputs(group);
        calls.timer(group, timer.getExpiryTimeInMs(), times);
        timerCall = " in the timer of the key " + group + " at " + Instant.ofEpochMilli(timer.getExpiryTimeInMs());
        outputs.addAll(sendWithRetry(times.getCurrentProcessingTimeInMs()));
        timerCall = null;
        return iterator(outputs);
    }

    /** The outputs of a key's rows that Spark has not requested yet; they come before those of its timer. */
    private List<byte[]> preparedOutputs(Row group) {
        List<byte[]> outputs = new ArrayList<>();
        ByteBuffer groupKey = prepared.isEmpty() ? null : keys.bytes(group);
        for (Prepared answered : prepared) {
            if (answered.key.equals(groupKey)) {
                outputs.addAll(answered.outputs);
                answered.outputs.clear();
            }
        }
        return outputs;
    }

    @Override
    public void handleInitialState(Row group, Row initial, TimerValues times) {
        calls.initial(group, bytes(initial), times);
        sendWithRetry(times.getCurrentProcessingTimeInMs());
    }

    private List<byte[]> sendWithRetry(long now) {
        try {
            return send(List.of(), now);
        } catch (IOException error) {
            WorkerPool.requireRunning(error);
            calls.replace();
            return lastAttempt(List.of(), now);
        }
    }

    /** Sends the call, applies the changes and returns the outputs. */
    private List<byte[]> send(List<byte[]> rows, long now) throws IOException {
        WireBuffer answer = calls.exchange(List.of());
        boolean retire = answer.takeByte() != 0;
        List<byte[]> outputs = settle(answer, rows, now);
        if (retire) calls.replace();
        return outputs;
    }

    /** Reports failures, applies the changes, and returns the outputs. */
    private List<byte[]> settle(WireBuffer answer, List<byte[]> rows, long now) {
        for (int remaining = answer.takeInt(); remaining > 0; remaining--) {
            int index = answer.takeInt();
            report(answer.takeText(), rows, index);
        }
        state.apply(answer, now);
        List<byte[]> outputs = new ArrayList<>();
        for (int remaining = answer.takeInt(); remaining > 0; remaining--) {
            outputs.add(answer.takeBlock());
        }
        return outputs;
    }

    private void report(String reason, List<byte[]> rows, int index) {
        boolean isKnown = source >= 0 && index < rows.size();
        failures.report(timerCall == null ? reason : reason + timerCall, isKnown ? provenance(rows.get(index)) : null);
    }

    @Override
    public void close() {
        if (failures != null) failures.flush();
        if (calls != null) calls.release();
    }

    private static byte[] bytes(Row row) {
        return (byte[]) row.get(row.length() - 1);
    }

    private static Iterator<byte[]> iterator(List<byte[]> items) {
        return CollectionConverters.asScala(items.iterator());
    }
}
