package dev.eagre.python;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets the partitions of a processor with timers tick. The shuffle goes below the step that ticks;
 * the state then needs no other, for the step keeps the attributes that the rows are distributed by.
 */
final class Ticks extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return Plans.upwards(plan, Ticks::rewrite);
    }

    private static LogicalPlan rewrite(LogicalPlan node) {
        if (!(node instanceof TransformWithState state)
                || !((Object) state.statefulProcessor() instanceof PythonProcessor processor)
                || processor.tickMs() == 0
                || ticksAlready(state.left())) {
            return node;
        }
        List<Expression> keys = new ArrayList<>(CollectionConverters.asJava(state.groupingAttributes()));
        LogicalPlan spread =
                new RepartitionByExpression(Plans.sequence(keys), state.left(), Option.empty(), Option.empty());
        List<Attribute> columns = Plans.attributes(state.left());
        LogicalPlan ticking =
                Plans.over(spread, new TickStep(columns.size(), processor.tickMs()), columns, List.of());
        return node.withNewChildren(Plans.sequence(List.of(ticking, state.right())));
    }

    private static boolean ticksAlready(LogicalPlan child) {
        return child instanceof SerializeFromObject
                && child.children().head() instanceof org.apache.spark.sql.catalyst.plans.logical.MapPartitions map
                && (Object) map.func() instanceof TickStep;
    }
}
