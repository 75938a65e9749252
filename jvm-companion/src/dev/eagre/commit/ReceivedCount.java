package dev.eagre.commit;

import org.apache.spark.TaskContext;

/** The rows that a task has received; the task is idle, or processes a row, or fires timers. */
public final class ReceivedCount extends RowCount {
    private final Barrier barrier;
    volatile boolean idle;

    ReceivedCount(TaskContext task, Barrier barrier, Way way) {
        super(task, way);
        this.barrier = barrier;
    }

    /** Sets whether the task waits for the next row; it has then processed all rows before. */
    public void setIdle(boolean now) {
        idle = now;
    }

    /**
     * Whether the idle task may fire its timers now; it is then not idle any more. It may not while the sources
     * are paused, because timers change state and give rows. A pause that begins meanwhile sees that it is busy.
     */
    public boolean mayFireTimers() {
        idle = false;
        if (!barrier.paused()) return true;
        idle = true;
        return false;
    }
}
