package dev.eagre.python;

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
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Puts a step that calls Python below each operator that uses Python functions, and their results in
 * the place of the calls. It runs after Spark's own optimization, when unused columns are gone.
 */
public final class CallFunctions extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return RowSteps.transformUp(plan, CallFunctions::rewrite);
    }

    private static LogicalPlan rewrite(LogicalPlan node) {
        List<PythonFunction> calls = PythonFunction.innermostIn(node);
        if (calls.isEmpty() || node.children().size() != 1) return node;
        LogicalPlan called = node;
        while (!calls.isEmpty()) {
            called = call(called, together(calls));
            calls = PythonFunction.innermostIn(called);
        }
        return sameOutput(node, called) ? called : new Project(named(node), called);
    }

    /** Those that one worker can run: of the same options as the first; lists are on their own. */
    private static List<PythonFunction> together(List<PythonFunction> calls) {
        String options = calls.get(0).spec().options;
        if (new FunctionOptions(options).kind().equals("batch")) return calls.subList(0, 1);
        return calls.stream().filter(call -> call.spec().options.equals(options)).toList();
    }

    private static LogicalPlan call(LogicalPlan node, List<PythonFunction> calls) {
        LogicalPlan child = node.children().head();
        List<Attribute> kept = RowSteps.attributes(child);
        List<NamedExpression> columns = new ArrayList<>(kept);
        Map<PythonFunction, Attribute> results = new HashMap<>();
        List<FunctionSpec> functions = new ArrayList<>();
        List<StructType> arguments = new ArrayList<>();
        List<Attribute> added = new ArrayList<>();
        Expression source = null;
        for (PythonFunction call : calls) {
            Expression given = call.children().head();
            columns.add(RowSteps.alias(given, "arguments"));
            functions.add(call.spec());
            arguments.add((StructType) given.dataType());
            Attribute result = RowSteps.attribute(call.spec().name + "#" + added.size(), call.dataType(), true);
            results.put(call, result);
            added.add(result);
            source = call.children().size() > 1 ? call.children().apply(1) : source;
        }
        if (source != null) columns.add(RowSteps.alias(source, RowSteps.SOURCE));
        FunctionStep step =
                new FunctionStep(functions, arguments, kept.size(), source == null ? null : source.dataType());
        LogicalPlan below =
                RowSteps.over(new Project(RowSteps.sequence(columns), child), step, kept, added);
        LogicalPlan moved = node.withNewChildren(RowSteps.sequence(List.of(below)));
        return RowSteps.expressions(moved, e -> e instanceof PythonFunction && results.containsKey(e)
                ? (Expression) results.get(e)
                : e);
    }

    private static boolean sameOutput(LogicalPlan before, LogicalPlan after) {
        List<Attribute> wanted = RowSteps.attributes(before);
        List<Attribute> given = RowSteps.attributes(after);
        if (wanted.size() != given.size()) return false;
        for (int i = 0; i < wanted.size(); i++) {
            if (!wanted.get(i).exprId().equals(given.get(i).exprId())) return false;
            if (!wanted.get(i).name().equals(given.get(i).name())) return false;
        }
        return true;
    }

    private static scala.collection.immutable.Seq<NamedExpression> named(LogicalPlan node) {
        return CollectionConverters.asScala(new ArrayList<NamedExpression>(RowSteps.attributes(node))).toVector();
    }
}
