package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.apache.spark.sql.Row;

/**
 * Joins each row with its key's row of a table that a stream keeps current: the latest version, or the one
 * valid at the row's time. A row whose key is missing can wait for it.
 */
final class Lookup extends Operator<Lookup.Versions> {
    static final int TABLE = 1;
    private static final long LATEST = 0;

    private transient int side;
    private transient int deleted;
    private transient boolean versioned;
    private transient boolean inner;
    private transient long history;
    private transient long waitsMs;
    private transient long keepsMs;

    Lookup(String spec, int at, int written) {
        super(spec, at, written);
    }

    private record Waiting(long at, long touched, byte[] row) {}

    /** The versions of the key's row by the time from which they are valid; null for a deletion. */
    static final class Versions extends State {
        final TreeMap<Long, byte[]> versions = new TreeMap<>();
        final List<Waiting> waiting = new ArrayList<>();

        @Override
        void read(DataInputStream in) throws IOException {
            super.read(in);
            for (int left = in.readInt(); left > 0; left--) versions.put(in.readLong(), StateLayout.readBytes(in));
            for (int left = in.readInt(); left > 0; left--) {
                waiting.add(new Waiting(in.readLong(), in.readLong(), StateLayout.readBytes(in)));
            }
        }

        @Override
        void write(DataOutputStream out) throws IOException {
            super.write(out);
            out.writeInt(versions.size());
            for (Map.Entry<Long, byte[]> version : versions.entrySet()) {
                out.writeLong(version.getKey());
                StateLayout.writeBytes(version.getValue(), out);
            }
            out.writeInt(waiting.size());
            for (Waiting waitingRow : waiting) {
                out.writeLong(waitingRow.at);
                out.writeLong(waitingRow.touched);
                StateLayout.writeBytes(waitingRow.row, out);
            }
        }
    }

    @Override
    void open(JsonNode spec) {
        side = spec.get("side").asInt();
        deleted = side + 1;
        versioned = spec.get("versioned").asBoolean();
        inner = spec.get("inner").asBoolean();
        history = spec.get("history").asLong();
        waitsMs = spec.get("waits_ms").asLong();
        keepsMs = spec.get("keeps_ms").asLong();
    }

    @Override
    Versions empty() {
        return new Versions();
    }

    @Override
    boolean isLate(Versions state, Row row, long at) {
        if (!versioned || !state.isPast(at, history)) return false;
        return !isTable(row) || at < oldest(state);
    }

    private boolean isTable(Row row) {
        return row.getInt(side) == TABLE;
    }

    @Override
    boolean joins() {
        return true;
    }

    @Override
    void unmatched(Row group, Row row, List<Row> out) {
        late(row, out);
    }

    @Override
    void late(Row row, List<Row> out) {
        if (!isTable(row) && !inner) out.add(joined(row.getAs(row.length() - 1), null));
    }

    @Override
    void row(Row group, Versions state, Row row, long at, List<Row> out) {
        byte[] bytes = row.getAs(row.length() - 1);
        boolean isTable = isTable(row);
        boolean waits = !isTable && waitsMs > 0 && !known(state, at);
        prune(state);
        if ((isTable && versioned || waits) && isFull(stored(state), bytes, row)) return;
        if (isTable) {
            state.versions.put(versioned ? at : LATEST, row.getBoolean(deleted) ? null : bytes);
            release(state, out);
        } else if (waits) {
            state.waiting.add(new Waiting(at, state.touched, bytes));
        } else {
            give(state, at, bytes, out);
        }
        prune(state);
    }

    private static long stored(Versions state) {
        return state.versions.values().stream().filter(Objects::nonNull).mapToLong(version -> version.length).sum()
                + state.waiting.stream().mapToLong(waitingRow -> waitingRow.row.length).sum();
    }

    private Map.Entry<Long, byte[]> version(Versions state, long at) {
        return state.versions.floorEntry(versioned ? at : LATEST);
    }

    private boolean known(Versions state, long at) {
        return version(state, at) != null;
    }

    private void give(Versions state, long at, byte[] row, List<Row> out) {
        Map.Entry<Long, byte[]> version = version(state, at);
        byte[] value = version == null ? null : version.getValue();
        if (value != null || !inner) out.add(joined(row, value));
    }

    private static Row joined(byte[] row, byte[] value) {
        return org.apache.spark.sql.RowFactory.create(row, value);
    }

    /** Emits waiting rows as soon as they have a version. */
    private void release(Versions state, List<Row> out) {
        state.waiting.removeIf(waitingRow -> {
            if (!known(state, waitingRow.at)) return false;
            give(state, waitingRow.at, waitingRow.row, out);
            return true;
        });
    }

    /** Retains the versions that a row in time can need: the history and one older version. */
    private void prune(Versions state) {
        if (versioned) state.versions.headMap(oldest(state), false).clear();
    }

    /** The time of the oldest version that a row in time can need; without an older one, any version. */
    private long oldest(Versions state) {
        if (state.newest == Long.MIN_VALUE) return Long.MIN_VALUE;
        Long oldest = state.versions.floorKey(state.newest - history);
        return oldest == null ? Long.MIN_VALUE : oldest;
    }

    @Override
    void ring(Row group, Versions state, long now, List<Row> out) {
        state.waiting.removeIf(waitingRow -> {
            if (trusted(waitingRow.touched + waitsMs) > now) return false;
            give(state, waitingRow.at, waitingRow.row, out);
            return true;
        });
        if (isDeleted(state) && trusted(deletionEnds(state)) <= now) state.versions.clear();
    }

    @Override
    long due(Versions state) {
        long idle = isDeleted(state) ? deletionEnds(state) : super.due(state);
        return state.waiting.stream().mapToLong(waitingRow -> waitingRow.touched + waitsMs).min().orElse(idle);
    }

    /** Whether the only version of the key is a deletion. */
    private static boolean isDeleted(Versions state) {
        return !state.versions.isEmpty() && state.versions.values().stream().allMatch(Objects::isNull);
    }

    /** A deletion is retained while an older version can still arrive, which would be mistaken for the latest. */
    private long deletionEnds(Versions state) {
        return state.touched + history / 1000;
    }

    @Override
    boolean isNothing(Versions state) {
        return state.waiting.isEmpty() && (state.versions.isEmpty() || !versioned && isDeleted(state));
    }

    @Override
    long waitsMs() {
        return waitsMs;
    }

    @Override
    long keepsMs() {
        return keepsMs;
    }
}
