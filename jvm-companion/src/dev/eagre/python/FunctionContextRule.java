package dev.eagre.python;

import dev.eagre.deadletter.QueryContext;
import dev.eagre.spark.RowSteps;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.StructType;

/**
 * Adds to calls of Python functions what a failure needs: the row's provenance, if the row has it, and the
 * error policy of the query. It runs before Spark drops columns that nothing else uses, and before it removes
 * sources that are empty in an epoch.
 */
public final class FunctionContextRule extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return RowSteps.transformUp(plan, node -> attach(node, plan));
    }

    private static LogicalPlan attach(LogicalPlan node, LogicalPlan plan) {
        if (node.children().size() != 1 || PythonFunction.innermostIn(node).isEmpty()) return node;
        LogicalPlan child = node.children().head();
        Attribute source = source(child);
        // A function over a static table gets the query's context when the table is joined with a stream.
        LogicalPlan query = QueryContext.isIn(child) ? child : QueryContext.isIn(plan) ? plan : null;
        return RowSteps.expressions(node, e -> e instanceof PythonFunction call ? attach(call, query, source) : e);
    }

    private static PythonFunction attach(PythonFunction call, LogicalPlan query, Attribute source) {
        boolean addSource = source != null && call.children().size() == 1;
        boolean addContext = query != null && !QueryContext.completes(call.spec().options);
        if (!addSource && !addContext) return call;
        return new PythonFunction(
                addContext ? call.spec().with(QueryContext.complete(call.spec().options, query)) : call.spec(),
                addSource ? RowSteps.sequence(List.<Expression>of(call.children().head(), source)) : call.children());
    }

    private static Attribute source(LogicalPlan child) {
        for (Attribute column : RowSteps.attributes(child)) {
            if (column.name().equals(RowSteps.SOURCE) && column.dataType() instanceof StructType) return column;
        }
        return null;
    }
}
