package dev.eagre.python.worker;

import dev.eagre.commit.InFlightOffsets;
import dev.eagre.commit.RecordPosition;
import dev.eagre.deadletter.DeadLetter;
import dev.eagre.deadletter.ErrorPolicy;
import dev.eagre.spark.RowOrdinals;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** What becomes of rows that a function could not handle, by the rule that the user chose. */
public final class FunctionErrors {
    private final ErrorPolicy policy;
    private final String functions;
    private final StructType source;
    private final int[] places;
    private final RowOrdinals ordinals;
    private InFlightOffsets.SourcePosition position;
    private boolean watched;

    public FunctionErrors(FunctionOptions options, String functions, DataType source) {
        this.functions = functions;
        this.source = source instanceof StructType struct ? struct : null;
        places = places(this.source);
        policy = new ErrorPolicy(options.json, functions);
        ordinals = policy.needsOrdinals() ? new RowOrdinals() : null;
    }

    /** Where topic, partition and offset stand in a row's origin; null if they do not. */
    private static int[] places(StructType source) {
        if (source == null) return null;
        int[] found = new int[3];
        String[] names = {"topic", "partition", "offset"};
        for (int i = 0; i < names.length; i++) {
            if (source.getFieldIndex(names[i]).isEmpty()) return null;
            found[i] = source.fieldIndex(names[i]);
        }
        return found;
    }

    boolean knowsSource() {
        return source != null;
    }

    public int sourceFields() {
        return source.length();
    }

    /** What they are called, where it is not known which of them it was. */
    String functions() {
        return functions;
    }

    /**
     * Counts a row, each one once and in their order; tells whether it became a dead letter before
     * this run began, and so ends here whatever became of it now.
     */
    boolean endedBefore(InternalRow origin) {
        if (ordinals == null || !known(origin)) return false;
        ordinals.next(origin.getUTF8String(places[0]), origin.getInt(places[1]), origin.getLong(places[2]));
        return policy.hasEarlier() && policy.alreadyWritten(position(origin), ordinals.ordinal());
    }

    /** Whether any row became a dead letter before this run began, and is read again now. */
    public boolean hasEarlier() {
        return policy.hasEarlier();
    }

    /** Whether a row did, which is its record's only one. */
    public boolean alreadyWritten(InternalRow origin) {
        return policy.alreadyWritten(position(origin), 0);
    }

    public int partition(InternalRow origin) {
        return origin.getInt(places[1]);
    }

    /** Applies the rule to a row. */
    public void report(String reason, InternalRow origin) {
        int ordinal = ordinals == null ? 0 : ordinals.ordinal();
        policy.apply("PYTHON_FUNCTION_FAILED", DeadLetter.of(position(origin), reason), ordinal);
    }

    public void warn(String text) {
        policy.warn(text);
    }

    /** Makes sure that what was sent has arrived, before the epoch ends. */
    public void flush() {
        policy.flush();
    }

    /** Notes the row that the task goes on with, in case that it fails there. */
    void handOn(InternalRow origin) {
        if (!known(origin)) return;
        if (position == null && !watched) begin();
        if (position != null) position.set(origin.getUTF8String(places[0]), origin.getInt(places[1]), origin.getLong(places[2]));
    }

    private void begin() {
        InFlightOffsets offsets = InFlightOffsets.current();
        position = offsets == null ? null : offsets.mine();
        watched = true;
    }

    /** A row could not be read: it is not one that was handed on. */
    void upstream() {
        InFlightOffsets offsets = InFlightOffsets.current();
        if (offsets != null) offsets.blame();
    }

    private boolean known(InternalRow origin) {
        if (origin == null || places == null) return false;
        for (int place : places) {
            if (origin.isNullAt(place)) return false;
        }
        return true;
    }

    private RecordPosition position(InternalRow origin) {
        if (!known(origin)) return null;
        UTF8String topic = origin.getUTF8String(places[0]);
        return new RecordPosition(topic.toString(), origin.getInt(places[1]), origin.getLong(places[2]));
    }
}
