package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.eagre.metrics.RowCounters;
import dev.eagre.state.EncoderCache;
import dev.eagre.state.TimerDriven;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An operator over the rows of a key: one state, in Spark's store, and one timer, which at last takes
 * the state away. Event time is the key's own: the latest that it has seen, so that a result depends
 * only on the key's rows and their order, and not on where epochs or batches end.
 *
 * <p>Its rows are the key, the columns named here, arguments, and a last one that is null in a tick.
 *
 * @param <S> the state of a key
 */
abstract class Operator<S extends Operator.State> extends StatefulProcessor<Row, Row, Row> implements TimerDriven {
    /** Event time in microseconds, and when the record was written in milliseconds. */
    static final String AT = "_at";

    static final String WRITTEN = "_written";
    static final String ROW = "_row";

    private static final Logger LOG = LoggerFactory.getLogger(Operator.class);

    /** So many keys' states are kept as they are, beside the store. */
    private static final int HOT = 128;

    /** What is due later than this is never due. */
    private static final long FOREVER_MS = 1L << 50;

    private final String spec;
    private final String id = UUID.randomUUID().toString();

    private transient String pipeline;
    private transient String name;
    private transient ValueState<byte[]> value;
    private transient ArrivalClock clock;
    private transient long lates;
    private transient OffsetOrder merging;
    private transient Map<Row, S> hot;

    /** Where columns stand; by the data that the operator is put over. */
    private final int at;
    private final int written;

    Operator(String spec, int at, int written) {
        this.spec = spec;
        this.at = at;
        this.written = written;
    }

    /** What every key's state holds. */
    abstract static class State {
        /** The latest event time, in microseconds. */
        long newest = Long.MIN_VALUE;

        /** When the last row came, by the task's clock in milliseconds. */
        long touched;

        /** The timer that is set; 0 for none. */
        long timer;

        /** Whether a time is older than the latest by more than so many microseconds. */
        final boolean isPast(long at, long by) {
            return newest != Long.MIN_VALUE && at < newest - by;
        }

        void read(DataInputStream in) throws IOException {
            newest = in.readLong();
            touched = in.readLong();
            timer = in.readLong();
        }

        void write(DataOutputStream out) throws IOException {
            out.writeLong(newest);
            out.writeLong(touched);
            out.writeLong(timer);
        }
    }

    /** Reads what the operator was told. */
    abstract void open(JsonNode spec);

    abstract S empty();

    /** Takes a row that has a time. */
    abstract void row(Row group, S state, Row row, long at, List<Row> out);

    /** What becomes of a row that is late or has no time, beside being counted. */
    void late(Row row, List<Row> out) {}

    /** Whether a row is too late to be taken. */
    abstract boolean isLate(S state, long at);

    /** How long after the last row of a key, in milliseconds, nothing is left to be done for it. */
    abstract long keepsMs();

    /** When something is to be done by the task's clock; the end of the state if nothing earlier. */
    long due(S state) {
        return state.touched + keepsMs();
    }

    /** How long what is due next has to wait after a start, in milliseconds. */
    long waitsMs() {
        return keepsMs();
    }

    /** Does what is due. */
    void ring(Row group, S state, long now, List<Row> out) {}

    /** Writes what is not in the state itself. */
    void save(S state) {}

    /**
     * Whether the states of the keys that come most stay as they are until the epoch or the batch is
     * over: for states that are long to read. They are written with each row all the same.
     */
    boolean keepsHot() {
        return false;
    }

    /** Whether there is nothing to keep. */
    boolean isNothing(S state) {
        return false;
    }

    @Override
    public String id() {
        return id;
    }

    @Override
    public long tickMs() {
        return told().get("tick_ms").asLong();
    }

    /** Its name, and whether it gives results more than once. */
    @Override
    public String toString() {
        JsonNode told = told();
        boolean updates = told.get("operator").asText().equals("top_n") || told.path("updates").asBoolean();
        return told.get("operator").asText() + (updates ? ":updates" : "");
    }

    private JsonNode told() {
        try {
            return new ObjectMapper().readTree(spec);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        JsonNode told = told();
        pipeline = told.get("pipeline").asText();
        name = told.get("operator").asText();
        value = getHandle().getValueState(name, EncoderCache.of(Encoders.BINARY()), TTLConfig.NONE());
        merging = new OffsetOrder(written);
        hot = new LinkedHashMap<>(HOT, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<Row, S> eldest) {
                return size() > HOT;
            }
        };
        open(told);
        TaskContext task = TaskContext.get();
        if (task != null) clock = ArrivalClock.of(getHandle().getQueryInfo().getRunId(), id, task.partitionId());
    }

    @Override
    public Iterator<Row> handleInputRows(Row group, Iterator<Row> rows, TimerValues times) {
        List<Row> out = new ArrayList<>();
        long now = times.getCurrentProcessingTimeInMs();
        S state = null;
        while (rows.hasNext()) {
            for (Row row : merging.next(rows)) {
                if (row.isNullAt(row.length() - 1)) continue;
                if (state == null) state = load(group);
                take(group, state, row, now, out);
            }
        }
        if (state != null) store(group, state, now);
        return CollectionConverters.asScala(out.iterator());
    }

    private void take(Row group, S state, Row row, long now, List<Row> out) {
        clock.saw(now, written < 0 || row.isNullAt(written) ? null : row.getLong(written));
        state.touched = Math.max(state.touched, clock.time(now));
        if (row.isNullAt(at) || isLate(state, row.getLong(at))) {
            RowCounters.add(pipeline, "late");
            lates++;
            late(row, out);
            return;
        }
        state.newest = Math.max(state.newest, row.getLong(at));
        row(group, state, row, row.getLong(at), out);
    }

    @Override
    public Iterator<Row> handleExpiredTimer(Row group, TimerValues times, ExpiredTimerInfo timer) {
        List<Row> out = new ArrayList<>();
        long now = times.getCurrentProcessingTimeInMs();
        S state = load(group);
        if (timer.getExpiryTimeInMs() != state.timer) return CollectionConverters.asScala(out.iterator());
        state.timer = 0;
        if (trusted(due(state)) <= now) ring(group, state, now, out);
        if (clock.wall(state.touched + keepsMs(), keepsMs()) <= now) {
            drop(group);
        } else {
            store(group, state, now);
        }
        return CollectionConverters.asScala(out.iterator());
    }

    /** The epoch or the batch is over. */
    @Override
    public void close() {
        if (lates > 0) LOG.warn("[{}] {}: {} rows came too late", pipeline, name, lates);
        lates = 0;
    }

    /** What the wall clock says when the task's clock says a time, and no wait is cut short. */
    final long trusted(long due) {
        return clock.wall(due, waitsMs());
    }

    /** Takes all state of the key away. */
    void forget() {
        value.clear();
    }

    private void drop(Row group) {
        hot.remove(group);
        forget();
    }

    private S load(Row group) {
        S known = hot.get(group);
        if (known != null) return known;
        byte[] bytes = value.get();
        S state = empty();
        if (bytes == null) return state;
        return StateLayout.read(bytes, name, in -> {
            state.read(in);
            return state;
        });
    }

    /**
     * Keeps the state, and sees to it that its timer rings no later than it is due. One that rings too
     * early is set again: cheaper than to move it with each row.
     */
    private void store(Row group, S state, long now) {
        if (isNothing(state)) {
            if (state.timer != 0) getHandle().deleteTimer(state.timer);
            drop(group);
            return;
        }
        long due = Math.max(trusted(due(state)), now + 1);
        if (due < FOREVER_MS && (state.timer == 0 || state.timer > due)) {
            if (state.timer != 0) getHandle().deleteTimer(state.timer);
            getHandle().registerTimer(due);
            state.timer = due;
        }
        save(state);
        value.update(StateLayout.write(state::write));
        if (keepsHot() && hashesByValue(group)) hot.put(group, state);
    }

    /** Whether equal keys hash alike: bytes do not. */
    private static boolean hashesByValue(Row group) {
        for (int i = 0; i < group.length(); i++) {
            if (group.get(i) instanceof byte[] || group.get(i) instanceof Row) return false;
        }
        return true;
    }

    static long floor(long at, long length) {
        return Math.floorDiv(at, length) * length;
    }
}
