package dev.eagre.plan;

import dev.eagre.spark.PlanTree;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.BinaryArithmetic;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.DivModLike;
import org.apache.spark.sql.catalyst.expressions.ElementAt;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetArrayItem;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.FractionalType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampType;
import scala.runtime.AbstractPartialFunction;

/** The expressions of a query that the check's rules need, and expressions as text. */
final class ExpressionFacts {
    private static final int MAX_LENGTH = 160;

    private ExpressionFacts() {}

    static List<Map<String, Object>> of(LogicalPlan plan) {
        List<Map<String, Object>> facts = new ArrayList<>();
        for (LogicalPlan node : PlanTree.nodes(plan)) {
            if (node.isStreaming()) {
                for (Expression e : PlanTree.list(node.expressions())) {
                    collect(e, false, node, facts);
                }
            }
        }
        return facts;
    }

    /** Collects the expressions that the rules need; an expression inside a condition is guarded. */
    private static void collect(
            Expression e, boolean guarded, LogicalPlan node, List<Map<String, Object>> facts) {
        String kind = kind(e, guarded, node);
        if (kind != null) {
            Map<String, Object> fact = new LinkedHashMap<>();
            fact.put("kind", kind);
            fact.put("text", shortened(e));
            fact.put("line", line(e, node));
            fact.put("type", e.dataType().simpleString());
            facts.add(fact);
        }
        boolean branches = e instanceof CaseWhen || e instanceof If;
        List<Expression> children = PlanTree.list(e.children());
        for (int i = 0; i < children.size(); i++) {
            collect(children.get(i), guarded || branches && i > 0, node, facts);
        }
    }

    private static String kind(Expression e, boolean guarded, LogicalPlan node) {
        String name = e.getClass().getSimpleName();
        if (e instanceof PythonFuncExpression) {
            return "python";
        }
        if (Set.of("CurrentTimestamp", "CurrentTimestampNanos", "Now", "LocalTimestamp",
                "LocalTimestampNanos", "CurrentDate", "CurrentTime").contains(name)) {
            return "clock";
        }
        if (guarded) {
            return null;
        }
        if (e instanceof Cast cast) {
            return fails(cast) ? "cast" : null;
        }
        if (e instanceof DivModLike && e instanceof BinaryArithmetic division) {
            boolean ansi = division.evalMode().equals(EvalMode$.MODULE$.ANSI());
            boolean neverZero = isNonZero(division.right()) || isFiltered(division.right(), node);
            return ansi && !neverZero ? "division" : null;
        }
        boolean index = e instanceof GetArrayItem item && item.failOnError()
                || e instanceof ElementAt at && at.failOnError();
        return index ? "index" : null;
    }

    private static boolean fails(Cast cast) {
        DataType from = cast.child().dataType();
        DataType to = cast.dataType();
        boolean number = from instanceof NumericType || from instanceof BooleanType;
        boolean never = to instanceof StringType
                || from instanceof TimestampType
                        && (to instanceof DateType || to instanceof LongType)
                || number && (to instanceof FractionalType && !(to instanceof DecimalType)
                        || to instanceof BooleanType)
                || from instanceof BooleanType
                || Cast$.MODULE$.canUpCast(from, to);
        return cast.evalMode().equals(EvalMode$.MODULE$.ANSI())
                && !cast.child().foldable()
                && !never;
    }

    /** Whether a filter below tests the divisor. */
    private static boolean isFiltered(Expression divisor, LogicalPlan node) {
        return PlanTree.nodes(node).stream()
                .filter(below -> below instanceof Filter)
                .anyMatch(below -> divisor.references().nonEmpty() && divisor.references()
                        .subsetOf(((Filter) below).condition().references()));
    }

    /** Whether a divisor is a number other than zero, or null in place of zero. */
    private static boolean isNonZero(Expression divisor) {
        if (divisor.toString().toLowerCase(java.util.Locale.ROOT).contains("nullif(")) {
            return true;
        }
        try {
            Object value = divisor.foldable() ? divisor.eval(null) : null;
            return value != null && Double.parseDouble(value.toString()) != 0;
        } catch (RuntimeException unknown) {
            return false;
        }
    }

    private static String line(Expression e, LogicalPlan node) {
        var context = e.origin().pysparkErrorContext();
        return context.isDefined()
                ? context.get()._2()
                : node.getTagValue(PlanTree.LINE).getOrElse(() -> "");
    }

    /** Expressions as short texts without secrets. */
    static List<String> texts(List<? extends Expression> expressions) {
        return expressions.stream().map(ExpressionFacts::shortened).toList();
    }

    private static String shortened(Expression e) {
        String text = withoutTexts(e).toString().replaceAll("#\\d+L?", "");
        return text.length() <= MAX_LENGTH ? text : text.substring(0, MAX_LENGTH) + "…";
    }

    /** The expression without its string literals, which may be keys or passwords. */
    private static Expression withoutTexts(Expression e) {
        return e.transform(new AbstractPartialFunction<Expression, Expression>() {
            @Override
            public boolean isDefinedAt(Expression part) {
                return part instanceof Literal literal
                        && (literal.dataType() instanceof StringType
                                || literal.dataType() instanceof BinaryType);
            }

            @Override
            public Expression apply(Expression part) {
                return Literal.create("…", DataTypes.StringType);
            }
        });
    }
}
