package dev.eagre.python.worker;

import dev.eagre.commit.RecordPosition;
import dev.eagre.deadletter.FailureOfEarlierRow;

/** A sink in Python could not write for as long as it may try. No row is to blame: the query starts again. */
public final class SinkFailed extends RuntimeException implements FailureOfEarlierRow {
    SinkFailed(String reason) {
        super("SINK_FAILED: " + reason);
    }

    @Override
    public RecordPosition culprit() {
        return null;
    }
}
