package dev.eagre.shuffle;

import org.apache.spark.TaskContext;
import org.apache.spark.util.UninterruptibleThread;
import scala.runtime.AbstractFunction0;
import scala.runtime.BoxedUnit;

/** Threads that read a task's rows while the task's own thread does something else. */
public final class ReaderThreads {
    private static final long STOP_MS = 10_000;

    private ReaderThreads() {}

    public static Thread start(TaskContext task, Runnable work) {
        Thread thread = new UninterruptibleThread(
                () -> TaskContext.withTaskContext(task, new AbstractFunction0<BoxedUnit>() {
                    @Override
                    public BoxedUnit apply() {
                        work.run();
                        return BoxedUnit.UNIT;
                    }
                }),
                "eagre-reader-" + task.taskAttemptId());
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Stops a reader before its input is closed. */
    public static void stop(Thread reader) {
        reader.interrupt();
        try {
            reader.join(STOP_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Rethrows an error that another thread has caught. */
    public static void rethrow(Throwable error) {
        ReaderThreads.<RuntimeException>sneak(error);
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> void sneak(Throwable error) throws E {
        throw (E) error;
    }
}
