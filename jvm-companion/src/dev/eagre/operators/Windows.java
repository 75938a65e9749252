package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Predicate;
import org.apache.spark.sql.Row;

/**
 * Aggregates over windows of a fixed length. Results are emitted with each row, or once, when the key's event
 * time or the wall clock is past the window's end plus the grace period.
 */
final class Windows extends Operator<Windows.Open> {
    private transient long length;
    private transient long slide;
    private transient long grace;
    private transient long retentionMs;
    private transient boolean updates;
    private transient List<AggregateFunction> aggregates;

    Windows(String spec, int at, int written) {
        super(spec, at, written);
    }

    /** The open windows of a key by their start, and the time up to which the wall clock has closed windows. */
    final class Open extends State {
        final TreeMap<Long, WindowContents> windows = new TreeMap<>();
        long closed = Long.MIN_VALUE;

        @Override
        void read(DataInputStream in) throws IOException {
            super.read(in);
            closed = in.readLong();
            for (int left = in.readInt(); left > 0; left--) {
                WindowContents window = new WindowContents();
                windows.put(in.readLong(), window);
                window.read(aggregates, in);
            }
        }

        @Override
        void write(DataOutputStream out) throws IOException {
            super.write(out);
            out.writeLong(closed);
            out.writeInt(windows.size());
            for (Map.Entry<Long, WindowContents> entry : windows.entrySet()) {
                out.writeLong(entry.getKey());
                entry.getValue().write(aggregates, out);
            }
        }

        /** The time up to which windows are closed. */
        long over() {
            return newest == Long.MIN_VALUE ? closed : Math.max(closed, newest - grace);
        }
    }

    @Override
    void open(JsonNode spec) {
        length = spec.get("window").asLong();
        slide = spec.get("slide").asLong();
        grace = spec.get("grace").asLong();
        retentionMs = spec.path("retention_ms").asLong();
        updates = spec.get("updates").asBoolean();
        aggregates = AggregateFunction.all(spec.get("aggregates"));
    }

    @Override
    Open empty() {
        return new Open();
    }

    @Override
    boolean isLate(Open state, Row row, long at) {
        return floor(at, slide) + length <= state.over();
    }

    @Override
    void row(Row group, Open state, Row row, long at, List<Row> out) {
        close(group, state, out, start -> start + length <= state.over());
        for (long start = floor(at, slide); start > at - length; start -= slide) {
            if (start + length <= state.over()) break;
            WindowContents window = state.windows.computeIfAbsent(start, key -> new WindowContents());
            if (window.partials == null) window.partials = AggregateFunction.empty(aggregates);
            AggregateFunction.add(aggregates, window.partials, row);
            window.last = Math.max(window.last, at);
            window.touched = state.touched;
            window.row = row.getAs(row.length() - 1);
            if (updates) out.add(result(group, start, window));
        }
    }

    private void close(Row group, Open state, List<Row> out, Predicate<Long> over) {
        for (long start : new ArrayList<>(state.windows.keySet())) {
            if (!over.test(start)) continue;
            WindowContents window = state.windows.remove(start);
            if (!updates) out.add(result(group, start, window));
        }
    }

    private Row result(Row group, long start, WindowContents window) {
        Object[] values = new Object[2 + aggregates.size()];
        values[0] = start;
        for (int i = 0; i < aggregates.size(); i++) values[1 + i] = aggregates.get(i).result(window.partials[i]);
        values[values.length - 1] = window.row;
        return KeyedResults.row(group, values);
    }

    /** Closes windows in their order: an older window that can still have rows keeps the newer ones open. */
    @Override
    void ring(Row group, Open state, long now, List<Row> out) {
        while (!state.windows.isEmpty() && trusted(due(state)) <= now) {
            state.closed = Math.max(state.closed, state.windows.firstKey() + length);
            close(group, state, out, start -> start + length <= state.closed);
        }
    }

    /**
     * When a window ends by the wall clock: the time remaining at its last row, plus the silence after it. A window
     * that is emitted with each row remains open until its key has been idle for a while.
     */
    private long end(Open state, long start, WindowContents window) {
        if (updates) return state.touched + idleMs();
        return window.touched + (start + length - window.last) / 1000 + silenceMs(grace);
    }

    @Override
    long due(Open state) {
        Map.Entry<Long, WindowContents> first = state.windows.firstEntry();
        return first == null ? super.due(state) : end(state, first.getKey(), first.getValue());
    }

    @Override
    long waitsMs() {
        return updates ? idleMs() : length / 1000 + silenceMs(grace);
    }

    private long idleMs() {
        return 2 * (length + grace) / 1000;
    }

    /** The time up to which windows are closed is kept for the retention, so that none of them opens again. */
    @Override
    long keepsMs() {
        return Math.max(Math.max(idleMs(), waitsMs()), retentionMs);
    }
}
