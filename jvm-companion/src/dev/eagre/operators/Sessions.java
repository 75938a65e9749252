package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.operators.AggregateFunction.Partial;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.Row;

/**
 * Aggregates over sessions: rows of a key that are no further apart than a gap. Each row emits the current
 * result of its session. A session is final when the key's event time, or the wall clock, is past its end
 * plus the grace period.
 */
final class Sessions extends Operator<Sessions.Open> {
    private static final String OPEN = "open";
    private static final String MERGED = "merged";
    private static final String FINAL = "final";

    private transient long gap;
    private transient long grace;
    private transient long waitsMs;
    private transient boolean updates;
    private transient List<AggregateFunction> aggregates;

    Sessions(String spec, int at, int written) {
        super(spec, at, written);
    }

    private static final class Session extends WindowContents {
        long start;
    }

    /** The open sessions of a key, and the time up to which the wall clock has closed sessions. */
    final class Open extends State {
        final List<Session> sessions = new ArrayList<>();
        long closed = Long.MIN_VALUE;

        @Override
        void read(DataInputStream in) throws IOException {
            super.read(in);
            closed = in.readLong();
            for (int left = in.readInt(); left > 0; left--) {
                Session session = new Session();
                session.start = in.readLong();
                session.read(aggregates, in);
                sessions.add(session);
            }
        }

        @Override
        void write(DataOutputStream out) throws IOException {
            super.write(out);
            out.writeLong(closed);
            out.writeInt(sessions.size());
            for (Session session : sessions) {
                out.writeLong(session.start);
                session.write(aggregates, out);
            }
        }
    }

    @Override
    void open(JsonNode spec) {
        gap = spec.get("gap").asLong();
        grace = spec.get("grace").asLong();
        waitsMs = (gap + grace) / 1000;
        updates = spec.get("updates").asBoolean();
        aggregates = AggregateFunction.all(spec.get("aggregates"));
    }

    @Override
    Open empty() {
        return new Open();
    }

    @Override
    boolean isLate(Open state, long at) {
        return at <= state.closed || state.isPast(at + gap, grace);
    }

    @Override
    void row(Row group, Open state, Row row, long at, List<Row> out) {
        Session mine = new Session();
        mine.start = at;
        mine.last = at;
        mine.touched = state.touched;
        mine.row = row.getAs(row.length() - 1);
        mine.partials = AggregateFunction.empty(aggregates);
        AggregateFunction.add(aggregates, mine.partials, row);
        List<Session> met = state.sessions.stream()
                .filter(other -> at >= other.start - gap && at <= other.last + gap)
                .sorted(Comparator.comparingLong(session -> session.start))
                .toList();
        state.sessions.removeAll(met);
        for (Session other : met) merge(mine, other);
        state.sessions.add(mine);
        for (Session other : met) {
            if (updates && other.start != mine.start) out.add(result(group, other, MERGED, mine.row));
        }
        if (updates) out.add(result(group, mine, OPEN, mine.row));
        close(group, state, out, session -> session.last + gap < state.newest - grace);
    }

    private void merge(Session mine, Session other) {
        mine.start = Math.min(mine.start, other.start);
        mine.last = Math.max(mine.last, other.last);
        Partial[] both = AggregateFunction.empty(aggregates);
        AggregateFunction.merge(aggregates, both, other.partials);
        AggregateFunction.merge(aggregates, both, mine.partials);
        mine.partials = both;
    }

    private Row result(Row group, Session session, String status, byte[] row) {
        Object[] values = new Object[4 + aggregates.size()];
        values[0] = session.start;
        values[1] = session.last + gap;
        for (int i = 0; i < aggregates.size(); i++) {
            values[2 + i] = status.equals(MERGED) ? null : aggregates.get(i).result(session.partials[i]);
        }
        values[values.length - 2] = status;
        values[values.length - 1] = row;
        return KeyedResults.row(group, values);
    }

    private boolean close(Row group, Open state, List<Row> out, java.util.function.Predicate<Session> over) {
        List<Session> ended = state.sessions.stream()
                .filter(over)
                .sorted(Comparator.comparingLong(session -> session.start))
                .toList();
        for (Session session : ended) out.add(result(group, session, FINAL, session.row));
        return state.sessions.removeAll(ended);
    }

    @Override
    void ring(Row group, Open state, long now, List<Row> out) {
        for (Session session : state.sessions) {
            if (over(session, now)) state.closed = Math.max(state.closed, session.last + gap);
        }
        close(group, state, out, session -> over(session, now));
    }

    private boolean over(Session session, long now) {
        return trusted(session.touched + waitsMs) <= now;
    }

    @Override
    long due(Open state) {
        return state.sessions.stream().mapToLong(session -> session.touched + waitsMs).min().orElse(super.due(state));
    }

    @Override
    long waitsMs() {
        return waitsMs;
    }

    @Override
    long keepsMs() {
        return 2 * waitsMs;
    }
}
