package dev.eagre.operators;

import dev.eagre.operators.AggregateFunction.Partial;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.List;

/** The aggregates of one window or session. */
class WindowContents {
    /** The latest event time of its rows, in microseconds. */
    long last = Long.MIN_VALUE;

    /** When its last row arrived, by the task's clock in milliseconds. */
    long touched;

    /** The last row. */
    byte[] row;

    Partial[] partials;

    final void read(List<AggregateFunction> aggregates, DataInputStream in) throws IOException {
        last = in.readLong();
        touched = in.readLong();
        row = StateLayout.readBytes(in);
        partials = AggregateFunction.read(aggregates, in);
    }

    final void write(List<AggregateFunction> aggregates, DataOutputStream out) throws IOException {
        out.writeLong(last);
        out.writeLong(touched);
        StateLayout.writeBytes(row, out);
        AggregateFunction.write(aggregates, partials, out);
    }
}
