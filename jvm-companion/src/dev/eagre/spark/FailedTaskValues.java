package dev.eagre.spark;

import org.apache.spark.SparkContext;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;

/** Registers accumulators that keep what failed tasks have added; Spark's public ones discard it. */
public final class FailedTaskValues {
    private FailedTaskValues() {}

    /** Registers an accumulator; without the private member, it only gets the values of tasks that succeed. */
    public static void register(AccumulatorV2<?, ?> accumulator, SparkContext context, String name) {
        if (PrivateMember.FAILED_TASK_VALUES.available()) {
            accumulator.register(context, Option.apply(name), true);
        } else {
            context.register(accumulator, name);
        }
    }
}
