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
 * A Python {@code StatefulProcessor} in Spark's own operator: each call goes to a worker with the
 * key's values and comes back with outputs and changes, which are then made in Spark's state store.
 *
 * <p>The last column of its rows is the row's bytes; null is a tick, which only lets Spark look at its
 * timers.
 */
public final class PythonProcessor extends StatefulProcessorWithInitialState<Row, Row, byte[], Row> implements TimerDriven {
    private static final int MOST_AHEAD = 64;
    private static final int MOST_ROWS = 10_000;

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
    private transient Prefetch ahead;
    private transient Deque<Prepared> prepared;
    private transient int alone;

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

    /** Spark drops what is older than its TTL when an epoch ends, and takes its age from when one began. */
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
        ObjectNode told = options.forWorker();
        told.setAll(spec);
        // A worker that another run has opened is not taken over: what it remembers is of that run.
        told.put("run", getHandle().getQueryInfo().getRunId().toString());
        told.putArray("names").add(label);
        told.set("key", FunctionOptions.JSON.readTree(key.json()));
        told.putArray("arguments").add(FunctionOptions.JSON.readTree(input.json()));
        calls = new ProcessorCalls(options, FunctionOptions.hello(told, code), state, keys);
        ahead = Prefetch.of(id, TaskContext.get());
        prepared = new ArrayDeque<>();
    }

    /** A row that was answered before Spark asked for it. */
    private record Prepared(byte[] row, ByteBuffer key, List<byte[]> outputs) {}

    @Override
    public Iterator<byte[]> handleInputRows(Row group, Iterator<Row> rows, TimerValues times) {
        if (ahead != null) {
            Row first = rows.next();
            if (!rows.hasNext()) return iterator(single(group, bytes(first), times));
            List<Row> all = new ArrayList<>(List.of(first));
            while (rows.hasNext()) all.add(rows.next());
            return grouped(group, CollectionConverters.asScala(all.iterator()), times);
        }
        return grouped(group, rows, times);
    }

    /** One row, as real time has them: answered already, or asked together with those that wait. */
    private List<byte[]> single(Row group, byte[] row, TimerValues times) {
        if (row == null || leftOut(group, row)) return List.of();
        Prepared first = prepared.poll();
        if (first != null) {
            if (!Arrays.equals(first.row, row)) throw new IllegalStateException("rows out of order");
            return first.outputs;
        }
        List<InternalRow> waiting = alone > 0 ? List.of() : ahead.waiting(MOST_AHEAD);
        alone = Math.max(0, alone - 1);
        if (waiting.isEmpty()) return rows(group, List.of(row), times);
        try {
            return several(group, row, waiting, times);
        } catch (IOException error) {
            takeOver(error);
            alone = waiting.size();
        } finally {
            ImplicitGroupingKeyTracker.setImplicitKey(group);
        }
        return rows(group, List.of(row), times);
    }

    /**
     * Asks about a row and those that wait behind it: each key's values once, then the rows. If the
     * worker dies of it, nothing has changed, and each of them is asked about alone.
     */
    private List<byte[]> several(Row group, byte[] row, List<InternalRow> waiting, TimerValues times)
            throws IOException {
        List<byte[]> data = new ArrayList<>(List.of(row));
        List<Integer> places = new ArrayList<>(List.of(0));
        List<Row> groups = new ArrayList<>(List.of(group));
        Map<ByteBuffer, Integer> known = new HashMap<>(Map.of(keys.bytes(group), 0));
        for (InternalRow next : waiting) {
            if (endedBefore(next.getBinary(next.numFields() - 1))) continue;
            InternalRow other = keyOf(next);
            Integer place = known.putIfAbsent(keys.bytes(other), groups.size());
            if (place == null) groups.add(keys.read(other));
            places.add(place == null ? groups.size() - 1 : place);
            data.add(next.getBinary(next.numFields() - 1));
        }
        calls.several(groups, places, data, times);
        WireBuffer answer = calls.converse(groups);
        boolean retire = answer.takeByte() != 0;
        List<byte[]> outputs = null;
        for (int i = 0; i < data.size(); i++) {
            ImplicitGroupingKeyTracker.setImplicitKey(groups.get(places.get(i)));
            List<byte[]> made = settle(answer, data.subList(i, i + 1), times.getCurrentProcessingTimeInMs());
            if (i == 0) outputs = made;
            else prepared.add(new Prepared(data.get(i), keys.bytes(groups.get(places.get(i))), made));
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
        List<byte[]> taken = new ArrayList<>();
        while (rows.hasNext()) {
            byte[] row = bytes(rows.next());
            if (row != null && !leftOut(group, row)) taken.add(row);
            if (taken.size() == MOST_ROWS || (!taken.isEmpty() && !rows.hasNext())) {
                outputs.addAll(rows(group, taken, times));
                taken = new ArrayList<>();
            }
        }
        return iterator(outputs);
    }

    /** Whether a row became a dead letter before this run; makes sure of the others' partition. */
    private boolean leftOut(Row group, byte[] row) {
        if (alignment == null || source < 0) return false;
        if (endedBefore(row)) return true;
        alignment.require(keys.bytes(group), failures.partition(origin(row)));
        return false;
    }

    private boolean endedBefore(byte[] row) {
        return source >= 0 && failures.hasEarlier() && failures.alreadyWritten(origin(row));
    }

    private InternalRow origin(byte[] row) {
        return inputs.fromBytes(row).getStruct(source, failures.sourceFields());
    }

    private List<byte[]> rows(Row group, List<byte[]> rows, TimerValues times) {
        calls.rows(group, rows, times);
        try {
            return talk(rows, times.getCurrentProcessingTimeInMs());
        } catch (IOException error) {
            takeOver(error);
        }
        List<byte[]> outputs = new ArrayList<>();
        for (byte[] row : rows) {
            outputs.addAll(again(group, row, times));
        }
        return outputs;
    }

    private void takeOver(IOException error) {
        WorkerPool.requireRunning(error);
        failures.warn(label + " " + calls.failure() + "; a new worker takes over");
        calls.replace();
    }

    /** Tries a row once more, alone, in a new worker. */
    private List<byte[]> again(Row group, byte[] row, TimerValues times) {
        calls.rows(group, List.of(row), times);
        return lastTry(List.of(row), times.getCurrentProcessingTimeInMs());
    }

    private List<byte[]> lastTry(List<byte[]> rows, long now) {
        try {
            return talk(rows, now);
        } catch (IOException error) {
            WorkerPool.requireRunning(error);
            report(label + " " + calls.failure(), rows, 0);
            calls.replace();
            return List.of();
        }
    }

    @Override
    public Iterator<byte[]> handleExpiredTimer(Row group, TimerValues times, ExpiredTimerInfo timer) {
        List<byte[]> outputs = earlier(group);
        calls.timer(group, timer.getExpiryTimeInMs(), times);
        outputs.addAll(twice(times.getCurrentProcessingTimeInMs()));
        return iterator(outputs);
    }

    /** What rows of a key gave that Spark has not asked for yet: it stands before its timer's. */
    private List<byte[]> earlier(Row group) {
        List<byte[]> outputs = new ArrayList<>();
        ByteBuffer wanted = prepared.isEmpty() ? null : keys.bytes(group);
        for (Prepared one : prepared) {
            if (one.key.equals(wanted)) {
                outputs.addAll(one.outputs);
                one.outputs.clear();
            }
        }
        return outputs;
    }

    @Override
    public void handleInitialState(Row group, Row initial, TimerValues times) {
        calls.initial(group, bytes(initial), times);
        twice(times.getCurrentProcessingTimeInMs());
    }

    private List<byte[]> twice(long now) {
        try {
            return talk(List.of(), now);
        } catch (IOException error) {
            WorkerPool.requireRunning(error);
            calls.replace();
            return lastTry(List.of(), now);
        }
    }

    /** Sends the call, then makes the changes and gives the outputs. */
    private List<byte[]> talk(List<byte[]> rows, long now) throws IOException {
        WireBuffer answer = calls.converse(List.of());
        boolean retire = answer.takeByte() != 0;
        List<byte[]> outputs = settle(answer, rows, now);
        if (retire) calls.replace();
        return outputs;
    }

    /** Reports what failed, makes the changes, and gives the outputs. */
    private List<byte[]> settle(WireBuffer answer, List<byte[]> rows, long now) {
        for (int left = answer.takeInt(); left > 0; left--) {
            int index = answer.takeInt();
            report(answer.takeText(), rows, index);
        }
        state.apply(answer, now);
        List<byte[]> outputs = new ArrayList<>();
        for (int left = answer.takeInt(); left > 0; left--) {
            outputs.add(answer.takeBlock());
        }
        return outputs;
    }

    private void report(String reason, List<byte[]> rows, int index) {
        boolean known = source >= 0 && index < rows.size();
        failures.report(reason, known ? origin(rows.get(index)) : null);
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
