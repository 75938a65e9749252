package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.operators.AggregateFunction.Partial;
import dev.eagre.state.EncoderCache;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.ValueState;

/**
 * Adds to each row aggregates over the key's last minute, hour and so on. A window consists of slices, so its
 * state is bounded regardless of the number of rows. It ends with the slice of the row.
 *
 * <p>The newest slice of each window is in the key's main state, which is written with each row. The other
 * slices are in one state per window, which is written only when a slice ends or an older row arrives. The
 * bytes written per row, and so the changelog of an epoch, do not grow with the number of slices.
 */
final class Rolling extends Operator<Rolling.Slices> {
    private transient List<Window> windows;
    private transient long grace;
    private transient long keepsMs;
    private transient int results;

    Rolling(String spec, int at, int written) {
        super(spec, at, written);
    }

    private static final class Window {
        long slice;
        int slices;
        List<AggregateFunction> aggregates;
        ValueState<byte[]> older;

        long number(long at) {
            return Math.floorDiv(at, slice);
        }
    }

    /** The state of a key in one window. */
    private static final class WindowState {
        long number = Long.MIN_VALUE;
        Partial[] newest;
        TreeMap<Long, Partial[]> older;
        boolean changed;

        /** The sum of the older slices of the window that ends with the newest slice; null if not computed yet. */
        Partial[] before;
    }

    final class Slices extends State {
        final List<WindowState> windowStates = new ArrayList<>();

        Slices() {
            windows.forEach(window -> windowStates.add(new WindowState()));
        }

        @Override
        void read(DataInputStream in) throws IOException {
            super.read(in);
            for (int i = 0; i < windowStates.size(); i++) {
                windowStates.get(i).number = in.readLong();
                if (in.readBoolean()) windowStates.get(i).newest = AggregateFunction.read(windows.get(i).aggregates, in);
            }
        }

        @Override
        void write(DataOutputStream out) throws IOException {
            super.write(out);
            for (int i = 0; i < windowStates.size(); i++) {
                WindowState window = windowStates.get(i);
                out.writeLong(window.number);
                out.writeBoolean(window.newest != null);
                if (window.newest != null) AggregateFunction.write(windows.get(i).aggregates, window.newest, out);
            }
        }
    }

    @Override
    void open(JsonNode spec) {
        grace = spec.get("grace").asLong();
        keepsMs = spec.get("keeps_ms").asLong();
        windows = new ArrayList<>();
        results = 0;
        for (JsonNode entry : spec.get("windows")) {
            Window window = new Window();
            window.slice = entry.get("slice").asLong();
            window.slices = entry.get("slices").asInt();
            window.aggregates = AggregateFunction.all(entry.get("aggregates"));
            windows.add(window);
            results += window.aggregates.size();
        }
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        super.init(outputMode, timeMode);
        for (int i = 0; i < windows.size(); i++) {
            windows.get(i).older = getHandle()
                    .getValueState("slices_" + i, EncoderCache.of(Encoders.BINARY()), TTLConfig.NONE());
        }
    }

    @Override
    Slices empty() {
        return new Slices();
    }

    @Override
    boolean isLate(Slices state, Row row, long at) {
        return state.isPast(at, grace);
    }

    @Override
    void row(Row group, Slices state, Row row, long at, List<Row> out) {
        Object[] values = new Object[1 + results];
        values[0] = row.get(row.length() - 1);
        int next = 1;
        for (int i = 0; i < windows.size(); i++) {
            Window window = windows.get(i);
            WindowState windowState = state.windowStates.get(i);
            if (windowState.older == null) windowState.older = older(window);
            long number = window.number(at);
            add(window, windowState, number, row, window.number(state.newest - grace) - window.slices);
            Partial[] sum = sum(window, windowState, number);
            for (int k = 0; k < sum.length; k++) values[next++] = window.aggregates.get(k).result(sum[k]);
        }
        out.add(RowFactory.create(values));
    }

    private static void add(Window window, WindowState windowState, long number, Row row, long over) {
        if (number > windowState.number) {
            if (windowState.newest != null) windowState.older.put(windowState.number, windowState.newest);
            windowState.older.headMap(over, true).clear();
            windowState.changed = true;
            windowState.before = null;
            windowState.number = number;
            windowState.newest = AggregateFunction.empty(window.aggregates);
        }
        Partial[] partial = windowState.newest;
        if (number < windowState.number) {
            partial = windowState.older.computeIfAbsent(number, key -> AggregateFunction.empty(window.aggregates));
            windowState.changed = true;
            windowState.before = null;
        }
        AggregateFunction.add(window.aggregates, partial, row);
    }

    private static Partial[] sum(Window window, WindowState windowState, long number) {
        if (number != windowState.number) return older(window, windowState, number);
        if (windowState.before == null) windowState.before = older(window, windowState, number);
        Partial[] sum = AggregateFunction.empty(window.aggregates);
        AggregateFunction.merge(window.aggregates, sum, windowState.before);
        AggregateFunction.merge(window.aggregates, sum, windowState.newest);
        return sum;
    }

    private static Partial[] older(Window window, WindowState windowState, long number) {
        Partial[] sum = AggregateFunction.empty(window.aggregates);
        for (Partial[] slice : windowState.older.subMap(number - window.slices, false, number, true).values()) {
            AggregateFunction.merge(window.aggregates, sum, slice);
        }
        return sum;
    }

    private static TreeMap<Long, Partial[]> older(Window window) {
        TreeMap<Long, Partial[]> slices = new TreeMap<>();
        byte[] bytes = window.older.get();
        if (bytes == null) return slices;
        return StateLayout.read(bytes, "rolling", in -> {
            for (int left = in.readInt(); left > 0; left--) {
                slices.put(in.readLong(), AggregateFunction.read(window.aggregates, in));
            }
            return slices;
        });
    }

    @Override
    void save(Slices state) {
        for (int i = 0; i < windows.size(); i++) {
            Window window = windows.get(i);
            WindowState windowState = state.windowStates.get(i);
            if (!windowState.changed) continue;
            windowState.changed = false;
            window.older.update(StateLayout.write(out -> {
                out.writeInt(windowState.older.size());
                for (Map.Entry<Long, Partial[]> slice : windowState.older.entrySet()) {
                    out.writeLong(slice.getKey());
                    AggregateFunction.write(window.aggregates, slice.getValue(), out);
                }
            }));
        }
    }

    /** Passes a late row on without aggregates, which can no longer be computed. */
    @Override
    void late(Row row, List<Row> out) {
        Object[] values = new Object[1 + results];
        values[0] = row.get(row.length() - 1);
        out.add(RowFactory.create(values));
    }

    @Override
    void forget() {
        super.forget();
        windows.forEach(window -> window.older.clear());
    }

    @Override
    boolean keepsHot() {
        return true;
    }

    @Override
    long keepsMs() {
        return keepsMs;
    }
}
