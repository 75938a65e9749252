package dev.eagre.connectors.upsert;

import dev.eagre.commit.RecordPosition;
import dev.eagre.deadletter.FailureOfEarlierRow;

/** A write has failed, as the task learns while it processes a later row. It has no cause, which could hide the message. */
public final class WriteFailed extends RuntimeException implements FailureOfEarlierRow {
    private final RecordPosition culprit;

    /** @param culprit the record of the row that the database refuses; null if it refuses no single row */
    public WriteFailed(Throwable error, RecordPosition culprit) {
        super(error.getMessage() == null ? error.toString() : error.getMessage());
        setStackTrace(error.getStackTrace());
        this.culprit = culprit;
    }

    @Override
    public RecordPosition culprit() {
        return culprit;
    }
}
