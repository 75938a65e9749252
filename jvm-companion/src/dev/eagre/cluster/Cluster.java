package dev.eagre.cluster;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.commit.Participants;
import dev.eagre.metrics.JvmMetrics;
import dev.eagre.metrics.RowCounters;
import dev.eagre.spark.SparkInternals;
import java.nio.file.Path;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.streaming.StreamingQuery;

/** Where the tasks of this application run: in this JVM, or on executors. */
public final class Cluster {
    private static final long FLUSH_MS = 180_000;

    private Cluster() {}

    /** Whether tasks run on executors that the driver can ask; see {@link CommitPlugin}. */
    public static boolean connected(SparkContext context) {
        return !context.isLocal() && Executors.current() != null;
    }

    /**
     * The tasks of a query that has just been started.
     *
     * @param clientId the client id of its sink's producers
     */
    public static Participants participants(StreamingQuery query, String clientId) throws Exception {
        Path checkpoint = SparkInternals.localCheckpoint(query);
        Path state = checkpoint == null ? null : checkpoint.resolve("state");
        Executors executors = Executors.current();
        return executors == null
                ? new LocalParticipants(RunPart.join(query.runId(), clientId, state))
                : new ExecutorParticipants(query.runId(), executors, clientId, state == null ? "" : state.toString());
    }

    /** How many tasks the executors can run at the same time; -1 if tasks run in this JVM, or nobody knows. */
    public static int slots(SparkContext context) {
        return connected(context) ? Executors.current().cores() / context.conf().getInt("spark.task.cpus", 1) : -1;
    }

    /** How many executors this application has; 0 if tasks run in this JVM. */
    public static int executors(SparkContext context) {
        return connected(context) ? Executors.current().count() : 0;
    }

    /** In how many milliseconds every executor that was lost has ended for certain. */
    public static long silentInMs() {
        Executors executors = Executors.current();
        return executors == null ? 0 : executors.silentInMs();
    }

    /** Which executors have been lost so far, and why, as JSON. */
    public static String lostExecutors() throws JsonProcessingException {
        Executors executors = Executors.current();
        return Executors.JSON.writeValueAsString(executors == null ? List.of() : executors.removed());
    }

    /** What this JVM and the executors count, as JSON, with the waits of a run; see {@link JvmMetrics}. */
    public static String metrics(String run) throws Exception {
        Executors executors = Executors.current();
        String driver = JvmMetrics.report(run);
        return executors == null ? driver : executors.metrics().addTo(object(driver)).toString();
    }

    /** The rows that failed, arrived too late or were written, here and on the executors; see {@link RowCounters}. */
    public static String rowCounts() throws JsonProcessingException {
        Executors executors = Executors.current();
        String driver = RowCounters.all();
        return executors == null ? driver : executors.metrics().addRowsTo(object(driver)).toString();
    }

    private static ObjectNode object(String json) throws JsonProcessingException {
        return (ObjectNode) Executors.JSON.readTree(json);
    }

    /** Delivers what an earlier run of a query left in its producers, so that nothing of it appears later. */
    public static void deliver(String clientId) throws Exception {
        RunPart.deliverEarlier(clientId);
        Executors executors = Executors.current();
        if (executors == null) return;
        executors.ask(Executors.JSON.createObjectNode().put("do", "deliver").put("client", clientId), FLUSH_MS);
    }
}
