package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/** Passes the first row of a key, and no other within a time of a row that passed. */
final class Deduplicate extends Operator<Deduplicate.Passed> {
    private transient long within;
    private transient long keepsMs;

    Deduplicate(String spec, int at, int written) {
        super(spec, at, written);
    }

    /** The times of passed rows that can still have duplicates; they are more than "within" apart. */
    static final class Passed extends State {
        final List<Long> times = new ArrayList<>();

        @Override
        void read(DataInputStream in) throws IOException {
            super.read(in);
            for (int left = in.readInt(); left > 0; left--) times.add(in.readLong());
        }

        @Override
        void write(DataOutputStream out) throws IOException {
            super.write(out);
            out.writeInt(times.size());
            for (long time : times) out.writeLong(time);
        }
    }

    @Override
    void open(JsonNode spec) {
        within = spec.get("within").asLong();
        keepsMs = spec.get("keeps_ms").asLong();
    }

    @Override
    Passed empty() {
        return new Passed();
    }

    @Override
    boolean isLate(Passed state, Row row, long at) {
        return state.isPast(at, within);
    }

    @Override
    void row(Row group, Passed state, Row row, long at, List<Row> out) {
        state.times.removeIf(time -> time < state.newest - 2 * within);
        if (state.times.stream().anyMatch(time -> Math.abs(time - at) <= within)) return;
        state.times.add(at);
        out.add(RowFactory.create(row.get(row.length() - 1)));
    }

    @Override
    long keepsMs() {
        return keepsMs;
    }
}
