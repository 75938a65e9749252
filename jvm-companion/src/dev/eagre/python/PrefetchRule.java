package dev.eagre.python;

import dev.eagre.python.state.PythonProcessor;
import dev.eagre.shuffle.Prefetch;
import dev.eagre.spark.RowSteps;
import dev.eagre.state.TimerDriven;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapPartitions;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.streaming.TimeMode;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Adds {@link Prefetch} before Python processors, and before other processors with timers. The shuffle moves
 * below it. The state needs no other shuffle, because the step keeps the attributes by which the rows are
 * distributed. It does not apply in event time, where Spark drops late rows in between.
 */
public final class PrefetchRule extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return RowSteps.transformUp(plan, PrefetchRule::rewrite);
    }

    private static LogicalPlan rewrite(LogicalPlan node) {
        if (!(node instanceof TransformWithState state)
                || !((Object) state.statefulProcessor() instanceof TimerDriven processor)
                || !looksAhead(processor)
                || state.timeMode().equals(TimeMode.EventTime())
                || !state.left().isStreaming()
                || isThere(state.left())) {
            return node;
        }
        List<Expression> keys = new ArrayList<>(CollectionConverters.asJava(state.groupingAttributes()));
        LogicalPlan spread =
                new RepartitionByExpression(RowSteps.sequence(keys), state.left(), Option.empty(), Option.empty());
        List<Attribute> columns = RowSteps.attributes(state.left());
        boolean looks = processor instanceof PythonProcessor;
        Prefetch.Step step = new Prefetch.Step(processor.id(), columns.size(), processor.tickMs(), looks);
        LogicalPlan prefetch = RowSteps.over(spread, step, columns, List.of());
        return node.withNewChildren(RowSteps.sequence(List.of(prefetch, state.right())));
    }

    private static boolean looksAhead(TimerDriven processor) {
        return processor instanceof PythonProcessor || processor.tickMs() > 0;
    }

    private static boolean isThere(LogicalPlan child) {
        return child instanceof SerializeFromObject
                && child.children().head() instanceof MapPartitions map
                && (Object) map.func() instanceof Prefetch.Step;
    }
}
