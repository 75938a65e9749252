package dev.eagre.cluster;

import dev.eagre.commit.Barrier;
import dev.eagre.deadletter.TaskDeadLetters;
import dev.eagre.spark.SinkProducers;
import dev.eagre.state.DurableFiles;
import java.nio.file.Path;
import java.util.UUID;

/**
 * The part of a query's run that is in this JVM: its barrier, and what its tasks have written.
 *
 * @param run the run of the query
 * @param stateFiles the files of its state; null if they are not on a disk of this machine
 */
record RunPart(UUID run, Barrier barrier, SinkProducers producers, DurableFiles stateFiles) {
    /**
     * Joins a run, before any of its rows is read here.
     *
     * @param clientId the client id of its sink's producers
     * @param state the folder of its state on a disk of this machine; null if it is elsewhere
     */
    static RunPart join(UUID run, String clientId, Path state) {
        return new RunPart(
                run,
                Barrier.of(run),
                new SinkProducers(clientId),
                state == null ? null : new DurableFiles(state));
    }

    /** Delivers what earlier runs in this JVM left in producers, so that nothing of it appears later. */
    static void deliverEarlier(String clientId) {
        SinkProducers.flushAll(clientId);
        TaskDeadLetters.awaitAll();
    }

    void makeStateDurable() throws Exception {
        if (stateFiles != null) stateFiles.flush();
    }

    /** Waits until all output so far is delivered; throws if some of it was lost. */
    void flushOutput() {
        if (!producers.flush()) throw new IllegalStateException("RESULT_LOST: the sink could not deliver a result");
        if (TaskDeadLetters.lost(run) > 0) {
            throw new IllegalStateException("DEAD_LETTER_LOST: a dead letter could not be written");
        }
    }

    void release() {
        barrier.release(run);
    }
}
