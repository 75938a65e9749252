package dev.eagre.python;

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
 * Puts {@link Ahead} before Python processors, and before others whose timers tick. The shuffle goes below it; the state then needs no
 * other, for the step keeps the attributes that the rows are distributed by. Not in event time, where
 * Spark drops late rows in between.
 */
final class LookAhead extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return Plans.upwards(plan, LookAhead::rewrite);
    }

    private static LogicalPlan rewrite(LogicalPlan node) {
        if (!(node instanceof TransformWithState state)
                || !((Object) state.statefulProcessor() instanceof Ticking processor)
                || !looksAhead(processor)
                || state.timeMode().equals(TimeMode.EventTime())
                || !state.left().isStreaming()
                || isThere(state.left())) {
            return node;
        }
        List<Expression> keys = new ArrayList<>(CollectionConverters.asJava(state.groupingAttributes()));
        LogicalPlan spread =
                new RepartitionByExpression(Plans.sequence(keys), state.left(), Option.empty(), Option.empty());
        List<Attribute> columns = Plans.attributes(state.left());
        boolean looks = processor instanceof PythonProcessor;
        Ahead.Step step = new Ahead.Step(processor.id(), columns.size(), processor.tickMs(), looks);
        LogicalPlan ahead = Plans.over(spread, step, columns, List.of());
        return node.withNewChildren(Plans.sequence(List.of(ahead, state.right())));
    }

    private static boolean looksAhead(Ticking processor) {
        return processor instanceof PythonProcessor || processor.tickMs() > 0;
    }

    private static boolean isThere(LogicalPlan child) {
        return child instanceof SerializeFromObject
                && child.children().head() instanceof MapPartitions map
                && (Object) map.func() instanceof Ahead.Step;
    }
}
