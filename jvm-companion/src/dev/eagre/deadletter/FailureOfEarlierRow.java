package dev.eagre.deadletter;

import dev.eagre.commit.RecordPosition;

/** An exception that the row in work did not cause, because the task learns of it late. */
public interface FailureOfEarlierRow {
    /** The record of the row that caused it; null if no row did, or if its record is unknown. */
    RecordPosition culprit();
}
