package dev.eagre.spark;

import java.util.function.Supplier;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;

/**
 * Scans of a state store in a task that runs for days.
 *
 * <p>For each scan Spark adds a listener to the task, which closes the scan when the task ends. A task with mid-epoch
 * commits ends after days: the listeners of all its scans, and what they hold, would fill the heap. A scan that is
 * read to its end is closed there, so it needs no listener, and does not see the task.
 */
public final class StateScan {
    private StateScan() {}

    /** Runs a scan that reads to its end. */
    public static void toItsEnd(Runnable scan) {
        toItsEnd(() -> {
            scan.run();
            return null;
        });
    }

    /** Runs a scan that reads to its end, and returns what it has read. */
    public static <T> T toItsEnd(Supplier<T> scan) {
        TaskContext task = TaskContext.get();
        TaskContext$.MODULE$.unset();
        try {
            return scan.get();
        } finally {
            if (task != null) TaskContext$.MODULE$.setTaskContext(task);
        }
    }
}
