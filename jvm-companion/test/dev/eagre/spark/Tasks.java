package dev.eagre.spark;

import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.math.BigDecimal;
import scala.runtime.AbstractFunction0;

/** Task contexts for code that runs in Spark tasks, without Spark. */
public final class Tasks {
    private static final AtomicLong ATTEMPTS = new AtomicLong(1);

    private Tasks() {}

    /** A running task with a unique id. */
    public static TaskContextImpl task() {
        return task(0);
    }

    /** A task with an attempt number, from 0. */
    public static TaskContextImpl task(int attempt) {
        return task(attempt, new Properties());
    }

    /** A task of a streaming query's run. */
    public static TaskContextImpl task(UUID run) {
        Properties properties = new Properties();
        properties.setProperty("spark.jobGroup.id", run.toString());
        return task(0, properties);
    }

    /** A task of an epoch of a streaming query's run. */
    public static TaskContextImpl task(UUID run, long epoch) {
        Properties properties = new Properties();
        properties.setProperty("spark.jobGroup.id", run.toString());
        properties.setProperty("streaming.sql.batchId", String.valueOf(epoch));
        return task(0, properties);
    }

    private static TaskContextImpl task(int attempt, Properties properties) {
        return new TaskContextImpl(0, 0, 0, ATTEMPTS.getAndIncrement(), attempt, 1, null, properties, null,
                TaskMetrics.empty(), BigDecimal.exact(1), Map$.MODULE$.empty());
    }

    /** Ends a task; its completion listeners run. */
    public static void complete(TaskContext task) {
        task.markTaskCompleted(Option.empty());
    }

    /** Runs code as Spark does, in the thread of a task. */
    public static <T> T in(TaskContext task, Callable<T> code) {
        return TaskContext.withTaskContext(task, new AbstractFunction0<T>() {
            @Override
            public T apply() {
                try {
                    return code.call();
                } catch (RuntimeException error) {
                    throw error;
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }
        });
    }
}
