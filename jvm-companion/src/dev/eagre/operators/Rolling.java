package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.operators.Aggregate.Partial;
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
 * Gives each row with aggregates over the key's last minute, hour and so on. A window is made of
 * slices, so that its state is bounded however many rows there are; it ends with the slice that the
 * row is in.
 *
 * <p>The newest slice of each window is in the key's own state, and written with each row; the others
 * are in a state for each window, which is written only when a slice is over or an older row comes:
 * what a row writes, and an epoch's changelog holds, does not grow with the number of slices.
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
        List<Aggregate> aggregates;
        ValueState<byte[]> older;

        long number(long at) {
            return Math.floorDiv(at, slice);
        }
    }

    /** What a key has in one window. */
    private static final class Kept {
        long number = Long.MIN_VALUE;
        Partial[] newest;
        TreeMap<Long, Partial[]> older;
        boolean changed;

        /** The older slices of the window that ends with the newest one, summed up; null if not yet. */
        Partial[] before;
    }

    final class Slices extends State {
        final List<Kept> kept = new ArrayList<>();

        Slices() {
            windows.forEach(window -> kept.add(new Kept()));
        }

        @Override
        void read(DataInputStream in) throws IOException {
            super.read(in);
            for (int i = 0; i < kept.size(); i++) {
                kept.get(i).number = in.readLong();
                if (in.readBoolean()) kept.get(i).newest = Aggregate.read(windows.get(i).aggregates, in);
            }
        }

        @Override
        void write(DataOutputStream out) throws IOException {
            super.write(out);
            for (int i = 0; i < kept.size(); i++) {
                Kept mine = kept.get(i);
                out.writeLong(mine.number);
                out.writeBoolean(mine.newest != null);
                if (mine.newest != null) Aggregate.write(windows.get(i).aggregates, mine.newest, out);
            }
        }
    }

    @Override
    void open(JsonNode spec) {
        grace = spec.get("grace").asLong();
        keepsMs = spec.get("keeps_ms").asLong();
        windows = new ArrayList<>();
        results = 0;
        for (JsonNode one : spec.get("windows")) {
            Window window = new Window();
            window.slice = one.get("slice").asLong();
            window.slices = one.get("slices").asInt();
            window.aggregates = Aggregate.all(one.get("aggregates"));
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
    boolean isLate(Slices state, long at) {
        return state.isPast(at, grace);
    }

    @Override
    void row(Row group, Slices state, Row row, long at, List<Row> out) {
        Object[] values = new Object[1 + results];
        values[0] = row.get(row.length() - 1);
        int next = 1;
        for (int i = 0; i < windows.size(); i++) {
            Window window = windows.get(i);
            Kept kept = state.kept.get(i);
            if (kept.older == null) kept.older = older(window);
            long number = window.number(at);
            add(window, kept, number, row, window.number(state.newest - grace) - window.slices);
            Partial[] sum = sum(window, kept, number);
            for (int k = 0; k < sum.length; k++) values[next++] = window.aggregates.get(k).result(sum[k]);
        }
        out.add(RowFactory.create(values));
    }

    private static void add(Window window, Kept kept, long number, Row row, long over) {
        if (number > kept.number) {
            if (kept.newest != null) kept.older.put(kept.number, kept.newest);
            kept.older.headMap(over, true).clear();
            kept.changed = true;
            kept.before = null;
            kept.number = number;
            kept.newest = Aggregate.empty(window.aggregates);
        }
        Partial[] mine = kept.newest;
        if (number < kept.number) {
            mine = kept.older.computeIfAbsent(number, key -> Aggregate.empty(window.aggregates));
            kept.changed = true;
            kept.before = null;
        }
        Aggregate.add(window.aggregates, mine, row);
    }

    private static Partial[] sum(Window window, Kept kept, long number) {
        if (number != kept.number) return older(window, kept, number);
        if (kept.before == null) kept.before = older(window, kept, number);
        Partial[] sum = Aggregate.empty(window.aggregates);
        Aggregate.merge(window.aggregates, sum, kept.before);
        Aggregate.merge(window.aggregates, sum, kept.newest);
        return sum;
    }

    private static Partial[] older(Window window, Kept kept, long number) {
        Partial[] sum = Aggregate.empty(window.aggregates);
        for (Partial[] slice : kept.older.subMap(number - window.slices, false, number, true).values()) {
            Aggregate.merge(window.aggregates, sum, slice);
        }
        return sum;
    }

    private static TreeMap<Long, Partial[]> older(Window window) {
        TreeMap<Long, Partial[]> slices = new TreeMap<>();
        byte[] bytes = window.older.get();
        if (bytes == null) return slices;
        return StateLayout.read(bytes, "rolling", in -> {
            for (int left = in.readInt(); left > 0; left--) {
                slices.put(in.readLong(), Aggregate.read(window.aggregates, in));
            }
            return slices;
        });
    }

    @Override
    void save(Slices state) {
        for (int i = 0; i < windows.size(); i++) {
            Window window = windows.get(i);
            Kept kept = state.kept.get(i);
            if (!kept.changed) continue;
            kept.changed = false;
            window.older.update(StateLayout.write(out -> {
                out.writeInt(kept.older.size());
                for (Map.Entry<Long, Partial[]> slice : kept.older.entrySet()) {
                    out.writeLong(slice.getKey());
                    Aggregate.write(window.aggregates, slice.getValue(), out);
                }
            }));
        }
    }

    /** A late row goes on, without what can no longer be known: a payment is a payment. */
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
