package dev.eagre.commit;

import dev.eagre.commit.MidEpochCommits.StateVersion;
import java.util.List;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;

/**
 * The tasks of a running query, and what they have written, as a commit sees them: all in this JVM, or on the executors
 * of a cluster. Every call may take as long as the slowest of them.
 */
public interface Participants {
    /** Pauses or resumes the sources and timers: while paused, each task holds the next row that it reads. */
    void pause(boolean pause) throws Exception;

    /**
     * Places a barrier between two rows of each source, while the sources continue.
     *
     * @return for each source partition, the first row after the barrier; null if a row takes longer than the
     *     deadline, or if a source of the epoch has ended
     */
    List<RecordPosition> between(long epoch, Deadline deadline) throws Exception;

    /**
     * The next row of each source partition, once every source holds a row or waits for one; the sources are paused.
     *
     * @return null if that takes longer than the deadline, or if a source of the epoch has ended
     */
    List<RecordPosition> next(long epoch, Deadline deadline) throws Exception;

    /** For each source partition, the row after the last one that was read. */
    List<RecordPosition> afterRead() throws Exception;

    /**
     * Waits for the rows in flight, and writes the state as a new version; the sources are paused.
     *
     * @return null if rows are still in flight at the deadline, or if some stores are not loaded yet
     */
    StateVersion writeState(List<StatefulOperatorStateInfo> operators, Deadline deadline) throws Exception;

    /** Whether a task of the epoch has ended: what it held is lost, and a commit must not cover it. */
    boolean hasEnded(long epoch) throws Exception;

    /** Makes the state that was written survive a power failure; the stream continues meanwhile. */
    void makeStateDurable() throws Exception;

    /** Waits until all output so far is delivered; throws if some of it was lost. */
    void flushOutput() throws Exception;

    /** What keeps a barrier from passing, in a few words. */
    String waitsFor();

    /** Why the run can have no more commits, and must start again; empty while it can. */
    String broken();

    /** Forgets the run, which has been stopped. */
    void release();

    /**
     * Waits until all tasks of the released run have ended.
     *
     * @return whether they ended in time
     */
    boolean awaitEnd(long waitMs);
}
