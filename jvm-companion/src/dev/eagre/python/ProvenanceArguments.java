package dev.eagre.python;

import dev.eagre.spark.RowSteps;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.StructType;

/**
 * Adds the row's provenance to calls of Python functions if the row has it, so that a failure can name the
 * record. It runs before Spark drops the column because nothing else uses it.
 */
public final class ProvenanceArguments extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return RowSteps.transformUp(plan, ProvenanceArguments::attach);
    }

    private static LogicalPlan attach(LogicalPlan node) {
        if (node.children().size() != 1 || PythonFunction.innermostIn(node).isEmpty()) return node;
        Attribute source = source(node.children().head());
        if (source == null) return node;
        return RowSteps.expressions(node, e -> e instanceof PythonFunction call && call.children().size() == 1
                ? new PythonFunction(call.spec(),
                        RowSteps.sequence(List.<Expression>of(call.children().head(), source)))
                : e);
    }

    private static Attribute source(LogicalPlan child) {
        for (Attribute column : RowSteps.attributes(child)) {
            if (column.name().equals(RowSteps.SOURCE) && column.dataType() instanceof StructType) return column;
        }
        return null;
    }
}
