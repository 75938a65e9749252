package dev.eagre.python;

import dev.eagre.spark.RowSteps;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Splits an aggregate whose output calls Python functions over its results, such as {@code score(count(*))}. Spark's
 * optimizer merges a projection into the aggregate below it; Python is called in a projection above it.
 */
final class FunctionsAboveAggregates {
    private final List<Expression> grouping;
    private final List<NamedExpression> computed = new ArrayList<>();

    private FunctionsAboveAggregates(Aggregate aggregate) {
        grouping = new ArrayList<>(CollectionConverters.asJava(aggregate.groupingExpressions()));
    }

    /** The aggregate without the calls, below a projection with them; the aggregate itself if it has none. */
    static LogicalPlan split(Aggregate aggregate) {
        List<NamedExpression> columns =
                new ArrayList<>(CollectionConverters.asJava(aggregate.aggregateExpressions()));
        FunctionsAboveAggregates split = new FunctionsAboveAggregates(aggregate);
        if (columns.stream().noneMatch(column -> split.callsAbove((Expression) column))) return aggregate;
        List<NamedExpression> outer = new ArrayList<>();
        for (NamedExpression column : columns) {
            if (split.callsAbove((Expression) column)) {
                outer.add((NamedExpression) split.above((Expression) column));
            } else {
                split.computed.add(column);
                outer.add(column.toAttribute());
            }
        }
        Aggregate below = aggregate.copy(
                aggregate.groupingExpressions(), RowSteps.sequence(split.computed), aggregate.child(), aggregate.hint());
        return new Project(RowSteps.sequence(outer), below);
    }

    /** Whether a column calls Python outside of an aggregate function. */
    private boolean callsAbove(Expression expression) {
        if (expression instanceof AggregateExpression || isGrouping(expression)) return false;
        return expression instanceof PythonFunction
                || CollectionConverters.asJava(expression.children()).stream().anyMatch(this::callsAbove);
    }

    /** The expression over the aggregate's output: what the aggregate computes becomes one of its columns. */
    private Expression above(Expression expression) {
        if (expression instanceof AggregateExpression || isGrouping(expression)) return column(expression);
        List<Expression> children = new ArrayList<>();
        CollectionConverters.asJava(expression.children()).forEach(child -> children.add(above(child)));
        return children.isEmpty() ? expression : expression.withNewChildren(RowSteps.sequence(children));
    }

    private boolean isGrouping(Expression expression) {
        return grouping.stream().anyMatch(group -> group.semanticEquals(expression));
    }

    private Attribute column(Expression expression) {
        for (NamedExpression known : computed) {
            Expression value = known instanceof Attribute ? (Expression) known : ((Expression) known).children().head();
            if (value.semanticEquals(expression)) return known.toAttribute();
        }
        NamedExpression added =
                expression instanceof Attribute attribute ? attribute : RowSteps.alias(expression, "computed");
        computed.add(added);
        return added.toAttribute();
    }
}
