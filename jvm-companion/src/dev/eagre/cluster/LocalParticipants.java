package dev.eagre.cluster;

import dev.eagre.commit.Barrier;
import dev.eagre.commit.Deadline;
import dev.eagre.commit.MidEpochCommits.StateVersion;
import dev.eagre.commit.Participants;
import dev.eagre.commit.RecordPosition;
import dev.eagre.state.StateStores;
import java.util.List;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;

/** The tasks of a run that are threads of this JVM. */
public final class LocalParticipants implements Participants {
    private final RunPart part;

    LocalParticipants(RunPart part) {
        this.part = part;
    }

    @Override
    public void pause(boolean pause) {
        part.barrier().pause(pause);
    }

    @Override
    public List<RecordPosition> between(long epoch, Deadline deadline) {
        return part.barrier().between(epoch, deadline);
    }

    @Override
    public List<RecordPosition> next(long epoch, Deadline deadline) {
        return deadline.poll(() -> part.barrier().next(epoch));
    }

    @Override
    public List<RecordPosition> afterRead() {
        return part.barrier().afterRead();
    }

    @Override
    public StateVersion writeState(List<StatefulOperatorStateInfo> operators, Deadline deadline) throws Exception {
        return part.barrier().whileIdle(deadline, () ->
                operators.isEmpty() ? StateVersion.NONE : StateStores.write(part.run(), operators));
    }

    @Override
    public boolean hasEnded(long epoch) {
        return part.barrier().hasEnded(epoch);
    }

    @Override
    public void makeStateDurable() throws Exception {
        part.makeStateDurable();
    }

    @Override
    public void flushOutput() {
        part.flushOutput();
    }

    @Override
    public String waitsFor() {
        return part.barrier().waitsFor();
    }

    @Override
    public String broken() {
        return "";
    }

    @Override
    public void release() {
        part.release();
    }

    @Override
    public boolean awaitEnd(long waitMs) {
        return Barrier.awaitEnd(part.run(), waitMs);
    }
}
