package dev.eagre.spark;

import org.apache.spark.TaskContext;

/** The run of a streaming query that a task belongs to. */
public final class StreamingRun {
    /** Spark makes the id of a streaming query's run the job group of its tasks. */
    private static final String JOB_GROUP = "spark.jobGroup.id";

    private StreamingRun() {}

    /** The id of a task's run; empty outside of a streaming query. */
    public static String of(TaskContext task) {
        String run = task == null ? null : task.getLocalProperty(JOB_GROUP);
        return run == null ? "" : run;
    }

    /** The id of the run of the current task; empty outside of a task. */
    public static String current() {
        return of(TaskContext.get());
    }

    /** A name within a run, for reports. */
    public static String qualified(String run, String name) {
        return run.isEmpty() ? name : run + ":" + name;
    }
}
