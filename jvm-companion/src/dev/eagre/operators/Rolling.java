package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.operators.Aggregate.Partial;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * Gives each row with aggregates over the key's last minute, hour and so on. A window is made of
 * slices, so that its state is bounded however many rows there are; it ends with the slice that the
 * row is in.
 */
final class Rolling extends Operator<Rolling.Slices> {
    private transient List<Window> windows;
    private transient long grace;
    private transient long keepsMs;
    private transient int results;

    Rolling(String spec, int at, int written) {
        super(spec, at, written);
    }

    private record Window(long slice, int slices, List<Aggregate> aggregates) {
        long number(long at) {
            return Math.floorDiv(at, slice);
        }
    }

    /** The slices of each window that hold rows, by their number. */
    final class Slices extends State {
        final List<TreeMap<Long, Partial[]>> slices = new ArrayList<>();

        Slices() {
            windows.forEach(window -> slices.add(new TreeMap<>()));
        }

        @Override
        void read(DataInputStream in) throws IOException {
            super.read(in);
            for (int i = 0; i < slices.size(); i++) {
                for (int left = in.readInt(); left > 0; left--) {
                    slices.get(i).put(in.readLong(), Aggregate.read(windows.get(i).aggregates, in));
                }
            }
        }

        @Override
        void write(DataOutputStream out) throws IOException {
            super.write(out);
            for (int i = 0; i < slices.size(); i++) {
                out.writeInt(slices.get(i).size());
                for (Map.Entry<Long, Partial[]> slice : slices.get(i).entrySet()) {
                    out.writeLong(slice.getKey());
                    Aggregate.write(windows.get(i).aggregates, slice.getValue(), out);
                }
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
            List<Aggregate> aggregates = Aggregate.all(one.get("aggregates"));
            windows.add(new Window(one.get("slice").asLong(), one.get("slices").asInt(), aggregates));
            results += aggregates.size();
        }
    }

    @Override
    Slices empty() {
        return new Slices();
    }

    @Override
    boolean isLate(Slices state, long at) {
        return state.newest != Long.MIN_VALUE && at < state.newest - grace;
    }

    @Override
    void row(Row group, Slices state, Row row, long at, List<Row> out) {
        Object[] values = new Object[1 + results];
        values[0] = row.get(row.length() - 1);
        int next = 1;
        for (int i = 0; i < windows.size(); i++) {
            Window window = windows.get(i);
            TreeMap<Long, Partial[]> slices = state.slices.get(i);
            long number = window.number(at);
            slices.headMap(window.number(state.newest - grace) - window.slices, true).clear();
            Partial[] mine = slices.computeIfAbsent(number, key -> Aggregate.empty(window.aggregates));
            Aggregate.add(window.aggregates, mine, row);
            Partial[] sum = Aggregate.empty(window.aggregates);
            for (Partial[] slice : slices.subMap(number - window.slices, false, number, true).values()) {
                Aggregate.merge(window.aggregates, sum, slice);
            }
            for (int k = 0; k < sum.length; k++) values[next++] = window.aggregates.get(k).result(sum[k]);
        }
        out.add(RowFactory.create(values));
    }

    /** A late row goes on, without what can no longer be known: a payment is a payment. */
    @Override
    void late(Row row, List<Row> out) {
        Object[] values = new Object[1 + results];
        values[0] = row.get(row.length() - 1);
        out.add(RowFactory.create(values));
    }

    @Override
    long keepsMs() {
        return keepsMs;
    }
}
