package dev.eagre.python;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.StructType;

/**
 * Gives calls of Python functions the row's origin where the row still has it, so that a failure can
 * name the record, and before Spark drops a column that nothing else uses.
 */
final class Positions extends Rule<LogicalPlan> {
    static final String SOURCE = "_source";

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return Plans.upwards(plan, Positions::attach);
    }

    private static LogicalPlan attach(LogicalPlan node) {
        if (node.children().size() != 1 || Plans.innermost(node).isEmpty()) return node;
        Attribute source = source(node.children().head());
        if (source == null) return node;
        return Plans.expressions(node, e -> e instanceof PythonFunction call && call.children().size() == 1
                ? new PythonFunction(call.spec(),
                        Plans.sequence(List.<Expression>of(call.children().head(), source)))
                : e);
    }

    private static Attribute source(LogicalPlan child) {
        for (Attribute column : Plans.attributes(child)) {
            if (column.name().equals(SOURCE) && column.dataType() instanceof StructType) return column;
        }
        return null;
    }
}
