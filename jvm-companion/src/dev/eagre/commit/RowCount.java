package dev.eagre.commit;

import org.apache.spark.TaskContext;

/** Rows that a single thread has counted. */
public class RowCount {
    /** Where counted rows go. */
    enum Way {
        /** To another thread or process of the task. */
        TASK,
        /** To other tasks in this JVM. */
        JVM,
        /** To other tasks, which may be in other JVMs: this one cannot tell how many of them are in flight. */
        NETWORK
    }

    final long task;
    private final Way way;
    volatile long rows;

    RowCount(TaskContext task, Way way) {
        this.task = task.taskAttemptId();
        this.way = way;
    }

    /** Counts a row. */
    public final void increment() {
        rows = rows + 1;
    }

    boolean withinTask() {
        return way == Way.TASK;
    }

    boolean overNetwork() {
        return way == Way.NETWORK;
    }
}
