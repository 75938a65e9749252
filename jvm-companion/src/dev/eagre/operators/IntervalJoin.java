package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Row;

/**
 * Joins rows of two sides with the same key and close times, as soon as the second row arrives. In an outer
 * join, a row without a match is emitted alone when the key's event time or the wall clock shows that no
 * match can arrive.
 */
final class IntervalJoin extends Operator<IntervalJoin.Both> {
    private static final int LEFT = 0;

    private transient int side;
    private transient long before;
    private transient long after;
    private transient long grace;
    private transient boolean[] alone;

    IntervalJoin(String spec, int at, int written) {
        super(spec, at, written);
    }

    private static final class Held {
        int side;
        long at;
        long touched;
        boolean matched;
        byte[] row;
    }

    /** The rows that can still match a row of the other side. */
    static final class Both extends State {
        final List<Held> rows = new ArrayList<>();

        @Override
        void read(DataInputStream in) throws IOException {
            super.read(in);
            for (int left = in.readInt(); left > 0; left--) {
                Held held = new Held();
                held.side = in.readByte();
                held.at = in.readLong();
                held.touched = in.readLong();
                held.matched = in.readBoolean();
                held.row = StateLayout.readBytes(in);
                rows.add(held);
            }
        }

        @Override
        void write(DataOutputStream out) throws IOException {
            super.write(out);
            out.writeInt(rows.size());
            for (Held held : rows) {
                out.writeByte(held.side);
                out.writeLong(held.at);
                out.writeLong(held.touched);
                out.writeBoolean(held.matched);
                StateLayout.writeBytes(held.row, out);
            }
        }
    }

    @Override
    void open(JsonNode spec) {
        side = spec.get("side").asInt();
        before = spec.get("before").asLong();
        after = spec.get("after").asLong();
        grace = spec.get("grace").asLong();
        alone = new boolean[] {spec.get("left").asBoolean(), spec.get("right").asBoolean()};
    }

    @Override
    Both empty() {
        return new Both();
    }

    @Override
    boolean isLate(Both state, Row row, long at) {
        return state.isPast(at, grace);
    }

    @Override
    boolean joins() {
        return true;
    }

    @Override
    void unmatched(Row group, Row row, List<Row> out) {
        giveAlone(group, held(row), out);
    }

    private Held held(Row row) {
        Held held = new Held();
        held.side = row.getInt(side);
        held.row = row.getAs(row.length() - 1);
        return held;
    }

    @Override
    void row(Row group, Both state, Row row, long at, List<Row> out) {
        Held mine = held(row);
        mine.at = at;
        mine.touched = state.touched;
        removePast(group, state, out);
        if (isFull(state.rows.stream().mapToLong(held -> held.row.length).sum(), mine.row, row)) return;
        for (Held other : state.rows) {
            if (other.side == mine.side || !near(mine, other)) continue;
            mine.matched = true;
            other.matched = true;
            byte[] left = mine.side == LEFT ? mine.row : other.row;
            byte[] right = mine.side == LEFT ? other.row : mine.row;
            out.add(KeyedResults.row(group, left, right, mine.side));
        }
        state.rows.add(mine);
        removePast(group, state, out);
    }

    /** Removes the rows that can no longer match. */
    private void removePast(Row group, Both state, List<Row> out) {
        for (Iterator<Held> rows = state.rows.iterator(); rows.hasNext(); ) {
            Held held = rows.next();
            if (held.at + reach(held) >= state.newest - grace) continue;
            rows.remove();
            giveAlone(group, held, out);
        }
    }

    private boolean near(Held a, Held b) {
        long later = a.side == LEFT ? b.at - a.at : a.at - b.at;
        return later >= -before && later <= after;
    }

    /** How much newer a row of the other side can be to match a row; negative if it must be older. */
    private long reach(Held held) {
        return held.side == LEFT ? after : before;
    }

    private boolean awaited(Held held) {
        return !held.matched && alone[held.side];
    }

    private void giveAlone(Row group, Held held, List<Row> out) {
        if (!awaited(held)) return;
        boolean left = held.side == LEFT;
        out.add(KeyedResults.row(group, left ? held.row : null, left ? null : held.row, held.side));
    }

    @Override
    void ring(Row group, Both state, long now, List<Row> out) {
        for (Iterator<Held> rows = state.rows.iterator(); rows.hasNext(); ) {
            Held held = rows.next();
            if (!awaited(held) || trusted(end(held)) > now) continue;
            rows.remove();
            giveAlone(group, held, out);
        }
    }

    private long end(Held held) {
        return held.touched + Math.max(0, reach(held)) / 1000 + silenceMs(grace);
    }

    @Override
    long due(Both state) {
        return state.rows.stream().filter(this::awaited).mapToLong(this::end).min().orElse(super.due(state));
    }

    @Override
    long keepsMs() {
        return Math.max(before, after) / 1000 + silenceMs(grace);
    }
}
