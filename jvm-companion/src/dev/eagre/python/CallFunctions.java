package dev.eagre.python;

import dev.eagre.deadletter.QueryContext;
import dev.eagre.python.worker.FunctionOptions;
import dev.eagre.python.worker.FunctionSpec;
import dev.eagre.spark.RowSteps;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Adds a step that calls Python below each operator that uses Python functions, and replaces the calls by
 * their results. It runs after Spark's optimizer, which has removed unused columns by then.
 */
public final class CallFunctions extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return RowSteps.transformUp(plan, CallFunctions::rewrite);
    }

    private static LogicalPlan rewrite(LogicalPlan node) {
        List<PythonFunction> calls = PythonFunction.innermostIn(node);
        if (calls.isEmpty() || node.children().size() != 1) return node;
        if (node instanceof Aggregate aggregate) {
            LogicalPlan split = FunctionsAboveAggregates.split(aggregate);
            if (split != aggregate) {
                LogicalPlan below = rewrite(split.children().head());
                return rewrite(split.withNewChildren(RowSteps.sequence(List.of(below))));
            }
        }
        LogicalPlan called = node;
        while (!calls.isEmpty()) {
            called = call(called, callableTogether(calls));
            calls = PythonFunction.innermostIn(called);
        }
        return sameOutput(node, called) ? called : new Project(named(node), called);
    }

    /** The calls that one worker can run: those with the options of the first; batch functions and sinks run alone. */
    private static List<PythonFunction> callableTogether(List<PythonFunction> calls) {
        String options = calls.get(0).spec().options;
        if (new FunctionOptions(options).runsAlone()) return calls.subList(0, 1);
        return calls.stream().filter(call -> call.spec().options.equals(options)).toList();
    }

    private static LogicalPlan call(LogicalPlan node, List<PythonFunction> calls) {
        LogicalPlan child = node.children().head();
        List<Attribute> retained = RowSteps.attributes(child);
        List<NamedExpression> columns = new ArrayList<>(retained);
        Map<PythonFunction, Attribute> results = new HashMap<>();
        List<FunctionSpec> functions = new ArrayList<>();
        List<StructType> arguments = new ArrayList<>();
        List<Attribute> added = new ArrayList<>();
        Expression source = null;
        for (PythonFunction call : calls) {
            Expression argument = call.children().head();
            columns.add(RowSteps.alias(argument, "arguments"));
            functions.add(withContext(call.spec(), child));
            arguments.add((StructType) argument.dataType());
            Attribute result = RowSteps.attribute(call.spec().name + "#" + added.size(), call.dataType(), true);
            results.put(call, result);
            added.add(result);
            source = call.children().size() > 1 ? call.children().apply(1) : source;
        }
        if (source != null) columns.add(RowSteps.alias(source, RowSteps.SOURCE));
        FunctionStep step =
                new FunctionStep(functions, arguments, retained.size(), source == null ? null : source.dataType());
        LogicalPlan below =
                RowSteps.over(new Project(RowSteps.sequence(columns), child), step, retained, added);
        LogicalPlan rewritten = node.withNewChildren(RowSteps.sequence(List.of(below)));
        return RowSteps.expressions(rewritten, e -> e instanceof PythonFunction && results.containsKey(e)
                ? (Expression) results.get(e)
                : e);
    }

    /** A function of a query without a source has no context yet. */
    private static FunctionSpec withContext(FunctionSpec spec, LogicalPlan plan) {
        return QueryContext.completes(spec.options) ? spec : spec.with(QueryContext.complete(spec.options, plan));
    }

    private static boolean sameOutput(LogicalPlan before, LogicalPlan after) {
        List<Attribute> expected = RowSteps.attributes(before);
        List<Attribute> actual = RowSteps.attributes(after);
        if (expected.size() != actual.size()) return false;
        for (int i = 0; i < expected.size(); i++) {
            if (!expected.get(i).exprId().equals(actual.get(i).exprId())) return false;
            if (!expected.get(i).name().equals(actual.get(i).name())) return false;
        }
        return true;
    }

    private static scala.collection.immutable.Seq<NamedExpression> named(LogicalPlan node) {
        return CollectionConverters.asScala(new ArrayList<NamedExpression>(RowSteps.attributes(node))).toVector();
    }
}
