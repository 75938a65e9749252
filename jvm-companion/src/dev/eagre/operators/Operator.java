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
import java.time.Duration;
import java.time.Instant;
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
 * An operator over the rows of a key: one state in Spark's store, and one timer, which finally removes the
 * state. Each key has its own event time, the latest one it has seen. A result therefore depends only on the
 * key's rows and their order, not on epoch or batch boundaries.
 *
 * <p>Its rows are the key, the columns named here, arguments, and a last column that is null in a tick.
 *
 * @param <S> the state of a key
 */
abstract class Operator<S extends Operator.State> extends StatefulProcessor<Row, Row, Row> implements TimerDriven {
    /** The event time in microseconds, and the time of writing in milliseconds. */
    static final String AT = "_at";

    static final String WRITTEN = "_written";
    static final String ROW = "_row";

    private static final Logger LOG = LoggerFactory.getLogger(Operator.class);

    /** How many keys' states are cached as objects. */
    private static final int HOT = 128;

    /** Anything due later than this is never due. */
    private static final long FOREVER_MS = 1L << 50;

    /** The least time that the wall clock allows for rows in flight, even without a grace period. */
    private static final long IN_FLIGHT_MS = 1_000;

    private final String spec;
    private final String id = UUID.randomUUID().toString();

    private transient String pipeline;
    private transient String name;
    private transient ValueState<byte[]> value;
    private transient ArrivalClock clock;
    private transient long lates;
    private transient long aheadMs;
    private transient long maxBytes;
    private transient RejectedRows rejected;
    private transient OffsetOrder merging;
    private transient Map<Row, S> hot;

    /** The indexes of the columns in the operator's input. */
    private final int at;
    private final int written;

    Operator(String spec, int at, int written) {
        this.spec = spec;
        this.at = at;
        this.written = written;
    }

    /** The state that every key has. */
    abstract static class State {
        /** The latest event time, in microseconds. */
        long newest = Long.MIN_VALUE;

        /** When the last row arrived, by the task's clock in milliseconds. */
        long touched;

        /** The current timer; 0 for none. */
        long timer;

        /** Whether a time is older than the latest by more than so many microseconds. */
        final boolean isPast(long at, long by) {
            return newest != Long.MIN_VALUE && at < newest - by;
        }

        /** Reads a state that was written in a layout. */
        void read(DataInputStream in, int layout) throws IOException {
            read(in);
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

    /** Reads the operator's spec. */
    abstract void open(JsonNode spec);

    abstract S empty();

    /** Processes a row that has a time. */
    abstract void row(Row group, S state, Row row, long at, List<Row> out);

    /** Whether keys are compared as in a join of SQL, where null equals nothing. Otherwise null is a key like any other. */
    boolean joins() {
        return false;
    }

    /** Handles a row whose key has a null, if that equals nothing: the row needs no state. */
    void unmatched(Row group, Row row, List<Row> out) {}

    /** Handles a row that is late or has no time, in addition to counting it. */
    void late(Row row, List<Row> out) {}

    /** Whether a row is too late. */
    abstract boolean isLate(S state, Row row, long at);

    /** How long after its last row a key is complete, in milliseconds. */
    abstract long keepsMs();

    /** When the next action is due by the task's clock; never if only the end of the state is left. */
    long due(S state) {
        return FOREVER_MS;
    }

    /** How long the next action must wait after a start, in milliseconds. */
    long waitsMs() {
        return keepsMs();
    }

    /** Runs the actions that are due. */
    void ring(Row group, S state, long now, List<Row> out) {}

    /** Writes additional state outside the main state. */
    void save(S state) {}

    /**
     * Whether to cache the states of the most frequent keys as objects until the end of the epoch or batch, for
     * states that are slow to read. They are still written with each row.
     */
    boolean keepsHot() {
        return false;
    }

    /** The layout in which states are written; older ones can still be read. */
    int layout() {
        return StateLayout.VERSION;
    }

    /** Whether there is no state to retain. */
    boolean isNothing(S state) {
        return false;
    }

    @Override
    public String id() {
        return id;
    }

    @Override
    public long tickMs() {
        return spec().get("tick_ms").asLong();
    }

    /** Its name, and whether it updates its results. */
    @Override
    public String toString() {
        JsonNode spec = spec();
        boolean updates = spec.get("operator").asText().equals("top_n") || spec.path("updates").asBoolean();
        return spec.get("operator").asText() + (updates ? ":updates" : "");
    }

    private JsonNode spec() {
        try {
            return new ObjectMapper().readTree(spec);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        JsonNode spec = spec();
        pipeline = spec.get("pipeline").asText();
        name = spec.get("operator").asText();
        value = getHandle().getValueState(name, EncoderCache.of(Encoders.BINARY()), TTLConfig.NONE());
        aheadMs = spec.path("ahead_ms").asLong(Long.MAX_VALUE);
        maxBytes = spec.path("max_bytes").asLong(Long.MAX_VALUE);
        rejected = new RejectedRows(spec);
        merging = new OffsetOrder(written);
        hot = new LinkedHashMap<>(HOT, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<Row, S> eldest) {
                return size() > HOT;
            }
        };
        open(spec);
        TaskContext task = TaskContext.get();
        if (task != null) clock = ArrivalClock.of(getHandle().getQueryInfo().getRunId(), id, task.partitionId());
    }

    @Override
    public Iterator<Row> handleInputRows(Row group, Iterator<Row> rows, TimerValues times) {
        List<Row> out = new ArrayList<>();
        long now = times.getCurrentProcessingTimeInMs();
        S state = null;
        boolean changed = false;
        while (rows.hasNext()) {
            for (Row row : merging.next(rows)) {
                boolean tick = row.isNullAt(row.length() - 1);
                clock.runs(now, tick);
                if (tick) continue;
                if (joins() && group.anyNull()) {
                    unmatched(group, row, out);
                    continue;
                }
                if (state == null) state = load(group);
                changed |= take(group, state, row, now, out);
            }
        }
        if (changed) store(group, state, now);
        return CollectionConverters.asScala(out.iterator());
    }

    /** Processes a row, and returns whether it may have changed the state: a late row does not keep it alive. */
    private boolean take(Row group, S state, Row row, long now, List<Row> out) {
        Long recorded = recorded(row);
        clock.saw(now, recorded);
        if (isAhead(row, recorded == null ? now : Math.min(recorded, now))) return false;
        if (row.isNullAt(at) || isLate(state, row, row.getLong(at))) {
            RowCounters.add(pipeline, "late");
            lates++;
            late(row, out);
            return false;
        }
        state.touched = Math.max(state.touched, clock.time(now));
        state.newest = Math.max(state.newest, row.getLong(at));
        row(group, state, row, row.getLong(at), out);
        return true;
    }

    /** When the record of a row was written, in milliseconds; null if unknown, for which Kafka has -1. */
    private Long recorded(Row row) {
        return written < 0 || row.isNullAt(written) || row.getLong(written) < 0 ? null : row.getLong(written);
    }

    /** Rejects a row whose time is too far ahead of its arrival: all later rows of its key would be late. */
    private boolean isAhead(Row row, long arrivedMs) {
        if (row.isNullAt(at) || row.getLong(at) / 1000 - arrivedMs <= aheadMs) return false;
        reject("EVENT_TIME_AHEAD", "the event time " + Instant.ofEpochMilli(row.getLong(at) / 1000) + " is more than "
                + Duration.ofMillis(aheadMs) + " ahead of the row's arrival at " + Instant.ofEpochMilli(arrivedMs)
                + " (spark.eagre.maxEventTimeAhead)", row);
        return true;
    }

    /** Whether a key has no room for another row, which is then rejected: its state is rewritten with each row. */
    final boolean isFull(long stored, byte[] bytes, Row row) {
        if (stored + bytes.length <= maxBytes) return false;
        reject("STATE_FULL", "the rows of the key already hold " + stored + " bytes, and the limit is " + maxBytes
                + " (spark.eagre.maxStatePerKey)", row);
        return true;
    }

    /** Applies the error policy to a row that cannot be processed. */
    final void reject(String code, String reason, Row row) {
        rejected.reject(code, name + ": " + reason, row);
    }

    @Override
    public Iterator<Row> handleExpiredTimer(Row group, TimerValues times, ExpiredTimerInfo timer) {
        List<Row> out = new ArrayList<>();
        long now = times.getCurrentProcessingTimeInMs();
        clock.runs(now, false);
        S state = load(group);
        if (timer.getExpiryTimeInMs() != state.timer) return CollectionConverters.asScala(out.iterator());
        state.timer = 0;
        if (trusted(due(state)) <= now) ring(group, state, now, out);
        if (ends(state) <= now) {
            drop(group);
        } else {
            store(group, state, now);
        }
        return CollectionConverters.asScala(out.iterator());
    }

    /** Called at the end of the epoch or batch. */
    @Override
    public void close() {
        if (rejected != null) rejected.flush();
        if (lates > 0) LOG.warn("[{}] {}: {} rows arrived too late", pipeline, name, lates);
        lates = 0;
    }

    /** How long the wall clock waits for rows after the end of a window: the grace period, but at least a second. */
    static long silenceMs(long grace) {
        return Math.max(grace / 1000, IN_FLIGHT_MS);
    }

    /** When the state ends, by the wall clock. */
    private long ends(S state) {
        return clock.wall(state.touched + keepsMs(), keepsMs());
    }

    /** The wall-clock time at which the task's clock reaches a time, without shortening a wait. */
    final long trusted(long due) {
        return clock.wall(due, waitsMs());
    }

    /** Removes all state of the key. */
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
        return StateLayout.read(bytes, name, layout(), (in, layout) -> {
            state.read(in, layout);
            return state;
        });
    }

    /**
     * Writes the state, and makes sure that its timer fires no later than due. A timer that fires too early is set
     * again, which is cheaper than moving it with each row.
     */
    private void store(Row group, S state, long now) {
        if (isNothing(state)) {
            if (state.timer != 0) getHandle().deleteTimer(state.timer);
            drop(group);
            return;
        }
        long due = Math.max(Math.min(trusted(due(state)), ends(state)), now + 1);
        if (due < FOREVER_MS && (state.timer == 0 || state.timer > due)) {
            if (state.timer != 0) getHandle().deleteTimer(state.timer);
            getHandle().registerTimer(due);
            state.timer = due;
        }
        save(state);
        value.update(StateLayout.write(layout(), state::write));
        if (keepsHot() && hashesByValue(group)) hot.put(group, state);
    }

    /** Whether equal keys have equal hashes; byte arrays do not. */
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
