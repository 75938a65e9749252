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

/** Applies the user's error policy to rows that a function could not process. */
public final class FunctionErrors {
    private final ErrorPolicy policy;
    private final String functions;
    private final StructType source;
    private final int[] fields;
    private final RowOrdinals ordinals;
    private InFlightOffsets.ThreadPosition position;
    private boolean initialized;

    public FunctionErrors(FunctionOptions options, String functions, DataType source) {
        this.functions = functions;
        this.source = source instanceof StructType struct ? struct : null;
        fields = fields(this.source);
        policy = new ErrorPolicy(options.json, functions);
        ordinals = policy.needsOrdinals() ? new RowOrdinals() : null;
    }

    /** The indexes of topic, partition and offset in a row's provenance; null if one is missing. */
    private static int[] fields(StructType source) {
        if (source == null) return null;
        int[] indexes = new int[3];
        String[] names = {"topic", "partition", "offset"};
        for (int i = 0; i < names.length; i++) {
            if (source.getFieldIndex(names[i]).isEmpty()) return null;
            indexes[i] = source.fieldIndex(names[i]);
        }
        return indexes;
    }

    boolean knowsSource() {
        return source != null;
    }

    public int sourceFields() {
        return source.length();
    }

    /** The names of all functions, for a failure that cannot be attributed to one of them. */
    String functions() {
        return functions;
    }

    /**
     * Numbers a row; must be called once per row, in order. Returns whether an earlier run wrote a dead letter for
     * the row; it is then dropped, whatever its result is now.
     */
    boolean failedBefore(InternalRow provenance) {
        if (ordinals == null || !isComplete(provenance)) return false;
        ordinals.next(provenance.getUTF8String(fields[0]), provenance.getInt(fields[1]), provenance.getLong(fields[2]));
        return policy.hasEarlier() && policy.alreadyWritten(position(provenance), ordinals.ordinal());
    }

    /** Whether earlier runs wrote dead letters for rows that are read again now. */
    public boolean hasEarlier() {
        return policy.hasEarlier();
    }

    /** Whether an earlier run wrote a dead letter for a row that is its record's only one. */
    public boolean alreadyWritten(InternalRow provenance) {
        return policy.alreadyWritten(position(provenance), 0);
    }

    public int partition(InternalRow provenance) {
        return provenance.getInt(fields[1]);
    }

    /** Applies the policy to a row. */
    public void report(String reason, InternalRow provenance) {
        int ordinal = ordinals == null ? 0 : ordinals.ordinal();
        policy.apply("PYTHON_FUNCTION_FAILED", DeadLetter.of(position(provenance), reason), ordinal);
    }

    public void warn(String text) {
        policy.warn(text);
    }

    /** Waits until all dead letters are delivered, before the epoch ends. */
    public void flush() {
        policy.flush();
    }

    /** Records the row that the task processes next, in case it fails there. */
    void passOn(InternalRow provenance) {
        if (!isComplete(provenance)) return;
        if (position == null && !initialized) initialize();
        if (position != null) position.set(provenance.getUTF8String(fields[0]), provenance.getInt(fields[1]), provenance.getLong(fields[2]));
    }

    private void initialize() {
        InFlightOffsets offsets = InFlightOffsets.current();
        position = offsets == null ? null : offsets.mine();
        initialized = true;
    }

    /** Attributes a failure to the row being read, not to one that was passed on. */
    void blameUpstream() {
        InFlightOffsets offsets = InFlightOffsets.current();
        if (offsets != null) offsets.blame();
    }

    private boolean isComplete(InternalRow provenance) {
        if (provenance == null || fields == null) return false;
        for (int field : fields) {
            if (provenance.isNullAt(field)) return false;
        }
        return true;
    }

    private RecordPosition position(InternalRow provenance) {
        if (!isComplete(provenance)) return null;
        UTF8String topic = provenance.getUTF8String(fields[0]);
        return new RecordPosition(topic.toString(), provenance.getInt(fields[1]), provenance.getLong(fields[2]));
    }
}
