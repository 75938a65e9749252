package dev.eagre.python;

import dev.eagre.python.worker.FunctionSpec;
import dev.eagre.spark.ProductExpression;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A call of a Python function in a plan. {@link CallFunctions} replaces it by a step of the plan before it
 * is evaluated.
 *
 * <p>Its children are a struct of the arguments and, if the row has it, {@code _source}. It is
 * declared as not deterministic, so that the optimizer calls it once per row, where it was written, and
 * neither copies nor moves it.
 */
public final class PythonFunction extends ProductExpression implements UserDefinedExpression {
    private final FunctionSpec spec;
    private final Seq<Expression> children;

    /** Spark's trees copy nodes through their public constructor. */
    public PythonFunction(FunctionSpec spec, Seq<Expression> children) {
        super(spec, children);
        this.spec = spec;
        this.children = children;
    }

    FunctionSpec spec() {
        return spec;
    }

    @Override
    public Seq<Expression> children() {
        return children;
    }

    @Override
    public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
        return new PythonFunction(spec, changed);
    }

    @Override
    public DataType dataType() {
        return spec.returns;
    }

    @Override
    public boolean nullable() {
        return true;
    }

    @Override
    public boolean deterministic() {
        return false;
    }

    @Override
    public boolean foldable() {
        return false;
    }

    @Override
    public Object eval(InternalRow row) {
        throw misplaced();
    }

    @Override
    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
        throw misplaced();
    }

    private IllegalStateException misplaced() {
        return new IllegalStateException("the Python function " + spec.name + " cannot be called"
                + " here: use it in select, withColumn, where, groupBy or explode, in a session created by"
                + " eg.session() or eg.configure()");
    }

    @Override
    public String name() {
        return spec.name;
    }

    @Override
    public String prettyName() {
        return spec.name;
    }

    @Override
    public String toString() {
        return spec.name + "(" + arguments(false) + ")";
    }

    @Override
    public String sql() {
        return spec.name + "(" + arguments(true) + ")";
    }

    /** The arguments as the user wrote them, without the struct around them. */
    private String arguments(boolean sql) {
        StringBuilder text = new StringBuilder();
        Seq<Expression> parts = children.head().children();
        for (int i = 1; i < parts.size(); i += 2) {
            text.append(text.isEmpty() ? "" : ", ")
                    .append(sql ? parts.apply(i).sql() : parts.apply(i).toString());
        }
        return text.toString();
    }

    /** The calls of Python functions in a node that contain no other call. */
    public static List<PythonFunction> innermostIn(LogicalPlan plan) {
        List<PythonFunction> calls = new ArrayList<>();
        for (Expression expression : CollectionConverters.asJava(plan.expressions())) {
            collect(expression, calls);
        }
        return calls;
    }

    /** Whether any part of a plan calls Python functions. */
    public static boolean calledIn(LogicalPlan plan) {
        return !innermostIn(plan).isEmpty()
                || CollectionConverters.asJava(plan.children()).stream().anyMatch(PythonFunction::calledIn);
    }

    private static boolean collect(Expression expression, List<PythonFunction> calls) {
        boolean inner = false;
        for (Expression child : CollectionConverters.asJava(expression.children())) {
            inner |= collect(child, calls);
        }
        if (!(expression instanceof PythonFunction call)) return inner;
        if (!inner && !calls.contains(call)) calls.add(call);
        return true;
    }
}
