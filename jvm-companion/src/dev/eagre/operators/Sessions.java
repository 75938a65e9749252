package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.operators.AggregateFunction.Partial;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.function.Predicate;
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
    private static final Comparator<Session> BY_START = Comparator.comparingLong(session -> session.start);

    private transient long gap;
    private transient long grace;
    private transient long waitsMs;
    private transient long retentionMs;
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
        waitsMs = gap / 1000 + silenceMs(grace);
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
                .sorted(BY_START)
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

    private void close(Row group, Open state, List<Row> out, Predicate<Session> over) {
        List<Session> ended = state.sessions.stream()
                .filter(over)
                .sorted(BY_START)
                .toList();
        for (Session session : ended) out.add(result(group, session, FINAL, session.row));
        state.sessions.removeAll(ended);
    }

    /** Ends sessions in their order: an older session that can still have rows keeps the newer ones open. */
    @Override
    void ring(Row group, Open state, long now, List<Row> out) {
        while (!state.sessions.isEmpty() && trusted(due(state)) <= now) {
            Session first = first(state);
            state.closed = Math.max(state.closed, first.last + gap);
            close(group, state, out, session -> session == first);
        }
    }

    private static Session first(Open state) {
        return Collections.min(state.sessions, BY_START);
    }

    @Override
    long due(Open state) {
        return state.sessions.isEmpty() ? super.due(state) : first(state).touched + waitsMs;
    }

    @Override
    long waitsMs() {
        return waitsMs;
    }

    /** The time up to which sessions are closed is kept for the retention, so that none of them opens again. */
    @Override
    long keepsMs() {
        return Math.max(2 * waitsMs, retentionMs);
    }
}
