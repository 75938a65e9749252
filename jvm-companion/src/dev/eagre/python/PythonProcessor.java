package dev.eagre.python;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.Row;
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
final class PythonProcessor extends StatefulProcessorWithInitialState<Row, Row, byte[], Row> {
    private static final int ROWS = 1;
    private static final int TIMER = 2;
    private static final int INITIAL = 3;
    private static final int MOST_ROWS = 10_000;

    private final String optionsText;
    private final String declared;
    private final byte[] code;
    private final StructType key;
    private final StructType input;
    private final long tickMs;

    private transient Options options;
    private transient Failures failures;
    private transient StateVariables state;
    private transient StateVariables.Rows keys;
    private transient Codec.RowCodec inputs;
    private transient Wire hello;
    private transient Wire call;
    private transient String pool;
    private transient Worker worker;
    private transient int source;

    PythonProcessor(
            String options, String declared, byte[] code, StructType key, StructType input, long tickMs) {
        this.optionsText = options;
        this.declared = declared;
        this.code = code;
        this.key = key;
        this.input = input;
        this.tickMs = tickMs;
    }

    /** How often an idle partition looks at its timers; 0 for never. */
    long tickMs() {
        return tickMs;
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        try {
            JsonNode spec = Options.JSON.readTree(declared);
            options = new Options(optionsText);
            state = new StateVariables(getHandle(), spec, timeMode.equals(TimeMode.ProcessingTime()));
            TaskContext task = TaskContext.get();
            if (task == null) return;
            open((ObjectNode) spec);
            task.addTaskCompletionListener((TaskCompletionListener) context -> end());
        } catch (IOException error) {
            throw new UncheckedIOException(error.getMessage(), error);
        }
    }

    private void open(ObjectNode spec) throws IOException {
        source = input.getFieldIndex(Positions.SOURCE).isDefined() ? input.fieldIndex(Positions.SOURCE) : -1;
        failures = new Failures(options, source < 0 ? null : input.apply(source).dataType());
        keys = new StateVariables.Rows(key);
        inputs = new Codec.RowCodec(input);
        call = new Wire(1 << 12);
        ObjectNode told = options.json.deepCopy();
        told.remove("dead_letters");
        told.setAll(spec);
        told.putArray("names").add(options.json.get("label").asText());
        told.set("key", Options.JSON.readTree(key.json()));
        told.putArray("arguments").add(Options.JSON.readTree(input.json()));
        hello = new Wire(1 << 12);
        Worker.begin(hello);
        hello.putText(told.toString());
        hello.putBlock(code);
        pool = Workers.key(hello);
        worker = Workers.lease(pool, hello, options);
    }

    @Override
    public Iterator<byte[]> handleInputRows(Row group, Iterator<Row> rows, TimerValues times) {
        List<byte[]> outputs = new ArrayList<>();
        List<byte[]> taken = new ArrayList<>();
        while (rows.hasNext()) {
            byte[] row = bytes(rows.next());
            if (row != null) taken.add(row);
            if (taken.size() == MOST_ROWS || (!taken.isEmpty() && !rows.hasNext())) {
                outputs.addAll(rows(group, taken, times));
                taken = new ArrayList<>();
            }
        }
        return iterator(outputs);
    }

    private List<byte[]> rows(Row group, List<byte[]> rows, TimerValues times) {
        begin(ROWS, group, times);
        call.putInt(rows.size());
        rows.forEach(call::putBlock);
        try {
            return talk(rows, now(times));
        } catch (IOException error) {
            requireRunning(error);
            failures.warn(options.json.get("label").asText() + " " + worker.obituary() + "; a new worker takes over");
            replace();
        }
        List<byte[]> outputs = new ArrayList<>();
        for (byte[] row : rows) {
            outputs.addAll(single(group, row, times));
        }
        return outputs;
    }

    /** Tries a row once more, alone, in a new worker. */
    private List<byte[]> single(Row group, byte[] row, TimerValues times) {
        begin(ROWS, group, times);
        call.putInt(1);
        call.putBlock(row);
        return lastTry(List.of(row), now(times));
    }

    private List<byte[]> lastTry(List<byte[]> rows, long now) {
        try {
            return talk(rows, now);
        } catch (IOException error) {
            requireRunning(error);
            report(options.json.get("label").asText() + " " + worker.obituary(), rows, 0);
            replace();
            return List.of();
        }
    }

    @Override
    public Iterator<byte[]> handleExpiredTimer(Row group, TimerValues times, ExpiredTimerInfo timer) {
        begin(TIMER, group, times);
        call.putLong(timer.getExpiryTimeInMs());
        return iterator(twice(now(times)));
    }

    @Override
    public void handleInitialState(Row group, Row initial, TimerValues times) {
        begin(INITIAL, group, times);
        call.putBlock(bytes(initial));
        twice(now(times));
    }

    private List<byte[]> twice(long now) {
        try {
            return talk(List.of(), now);
        } catch (IOException error) {
            requireRunning(error);
            replace();
            return lastTry(List.of(), now);
        }
    }

    private void begin(int kind, Row group, TimerValues times) {
        Worker.begin(call);
        call.putByte(kind);
        call.putLong(now(times));
        call.putLong(watermark(times));
        state.write(call);
        keys.write(group, call);
    }

    private static long now(TimerValues times) {
        try {
            return times.getCurrentProcessingTimeInMs();
        } catch (RuntimeException error) {
            return -1;
        }
    }

    private static long watermark(TimerValues times) {
        try {
            return times.getCurrentWatermarkInMs();
        } catch (RuntimeException error) {
            return -1;
        }
    }

    /** Sends the call, answers questions, then makes the changes and gives the outputs. */
    private List<byte[]> talk(List<byte[]> rows, long now) throws IOException {
        worker.waiting();
        worker.send(call);
        Wire message = worker.receive();
        while (message.takeByte() == 1) {
            Worker.begin(call);
            state.answer(message, call);
            worker.waiting();
            worker.send(call);
            message = worker.receive();
        }
        worker.answered();
        boolean retire = message.takeByte() != 0;
        for (int left = message.takeInt(); left > 0; left--) {
            int index = message.takeInt();
            report(message.takeText(), rows, index);
        }
        state.apply(message, now);
        List<byte[]> outputs = new ArrayList<>();
        for (int left = message.takeInt(); left > 0; left--) {
            outputs.add(message.takeBlock());
        }
        if (retire) replace();
        return outputs;
    }

    private void report(String reason, List<byte[]> rows, int index) {
        boolean known = source >= 0 && index < rows.size();
        failures.report(reason,
                known ? inputs.fromBytes(rows.get(index)).getStruct(source, failures.sourceFields()) : null);
    }

    private void replace() {
        try {
            Workers.discard(worker);
            worker = Workers.lease(pool, hello, options);
        } catch (IOException error) {
            throw new UncheckedIOException(error.getMessage(), error);
        }
    }

    private static void requireRunning(IOException error) {
        TaskContext task = TaskContext.get();
        if (task != null && task.isInterrupted()) throw new TaskKilledException();
        if (error instanceof ClosedByInterruptException || error instanceof Worker.Refused) {
            throw new UncheckedIOException(error.getMessage(), error);
        }
    }

    @Override
    public void close() {
        if (failures != null) failures.flush();
        if (worker != null) Workers.release(worker);
        worker = null;
    }

    /** The task is over, however it went. */
    private void end() {
        if (worker != null) Workers.discard(worker);
        worker = null;
        failures.close();
    }

    private static byte[] bytes(Row row) {
        return (byte[]) row.get(row.length() - 1);
    }

    private static Iterator<byte[]> iterator(List<byte[]> items) {
        return CollectionConverters.asScala(items.iterator());
    }
}
