package dev.eagre.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.DeserializeToObject;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapPartitions;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Row transformations in a logical plan, built from operators that Real-Time Mode allows:
 * {@code mapPartitions} between conversions. Attributes keep their ids and metadata, so that
 * watermarks survive. Written against Spark 4.3.0.
 */
public final class RowSteps {
    /** The column with the position of the record that a row comes from. */
    public static final String SOURCE = "_source";

    private RowSteps() {}

    /** A transformation of the rows of a partition. */
    public abstract static class Step extends AbstractFunction1<Iterator<Object>, Iterator<Object>>
            implements Serializable {
        /** Whether the step adds rows in which every column is null, even if the plan says otherwise. */
        public boolean mayAddEmptyRows() {
            return false;
        }
    }

    /**
     * Adds a step above a plan.
     *
     * @param step receives rows of the plan's columns, and returns rows of these columns, then {@code added}
     * @param retained the columns of the plan in the output
     * @param added the columns that the step appends
     */
    public static LogicalPlan over(LogicalPlan plan, Step step, List<Attribute> retained, List<Attribute> added) {
        requireNoPruning();
        List<Attribute> columns = attributes(plan);
        StructType schema = new StructType();
        for (Attribute column : columns) {
            schema = schema.add(fieldName(schema), column.dataType(), column.nullable() || step.mayAddEmptyRows());
        }
        for (Attribute column : added) {
            schema = schema.add(fieldName(schema), column.dataType(), column.nullable());
        }
        Attribute in = attribute("row", WholeRow.TYPE, false);
        Attribute out = attribute("row", schema, false);
        LogicalPlan rows =
                new DeserializeToObject(new WholeRow(sequence(new ArrayList<Expression>(columns))), in, plan);
        List<NamedExpression> fields = new ArrayList<>();
        Set<String> names = new HashSet<>();
        for (Attribute column : retained) {
            fields.add(field(out, indexOf(columns, column), column, names));
        }
        for (int i = 0; i < added.size(); i++) {
            fields.add(field(out, columns.size() + i, added.get(i), names));
        }
        return new SerializeFromObject(sequence(fields), new MapPartitions(step, out, rows));
    }

    /**
     * Spark's {@code ObjectSerializerPruning} renumbers the fields of a struct above a serializer that it cannot
     * prune, such as ours: values of other fields would be read.
     */
    private static void requireNoPruning() {
        if (SQLConf.get().serializerNestedSchemaPruningEnabled()) {
            throw new IllegalStateException("NESTED_PRUNING: Python in a plan needs"
                    + " spark.sql.optimizer.serializer.nestedSchemaPruning.enabled=false, which eg.session() and"
                    + " eg.configure() set; this session has it on");
        }
    }

    /** A unique name for the next field. */
    private static String fieldName(StructType schema) {
        return "_" + schema.length();
    }

    private static int indexOf(List<Attribute> columns, Attribute column) {
        for (int i = 0; i < columns.size(); i++) {
            if (columns.get(i).exprId().equals(column.exprId())) return i;
        }
        throw new IllegalArgumentException("no column " + column);
    }

    /**
     * A field of the row, with a unique name: Spark would merge two fields with the same name. The row is bound,
     * as in Spark's own serializers. Without whole-stage code generation, as for rows with many fields, nothing
     * binds it later.
     */
    private static NamedExpression field(Attribute row, int index, Attribute target, Set<String> names) {
        Expression bound = new BoundReference(0, row.dataType(), row.nullable());
        Expression value = new GetStructField(bound, index, Option.empty());
        String name = names.add(target.name()) ? target.name() : target.name() + "#" + index;
        return alias(value, name, target.exprId(), Option.apply(target.metadata()));
    }

    public static Alias alias(Expression value, String name) {
        return alias(value, name, NamedExpression$.MODULE$.newExprId(), Option.empty());
    }

    private static Alias alias(Expression value, String name, ExprId id, Option<Metadata> metadata) {
        return new Alias(value, name, id, CollectionConverters.asScala(List.<String>of()).toList(), metadata,
                CollectionConverters.asScala(List.<String>of()).toList());
    }

    public static Attribute attribute(String name, DataType type, boolean nullable) {
        return new AttributeReference(name, type, nullable, Metadata.empty(),
                NamedExpression$.MODULE$.newExprId(),
                CollectionConverters.asScala(List.<String>of()).toList());
    }

    public static List<Attribute> attributes(LogicalPlan plan) {
        return new ArrayList<>(CollectionConverters.asJava(plan.output()));
    }

    public static <T> Seq<T> sequence(List<T> items) {
        return CollectionConverters.asScala(items).toVector();
    }

    /** Rewrites a plan or an expression from its leaves up. */
    public static <T extends TreeNode<T>> T transformUp(T node, UnaryOperator<T> rule) {
        List<T> children = new ArrayList<>();
        boolean changed = false;
        for (T child : CollectionConverters.asJava(node.children())) {
            T rewritten = transformUp(child, rule);
            changed |= rewritten != child;
            children.add(rewritten);
        }
        return rule.apply(changed ? node.withNewChildren(sequence(children)) : node);
    }

    /** Rewrites the expressions of one node, each from its leaves up. */
    public static LogicalPlan expressions(LogicalPlan plan, UnaryOperator<Expression> rule) {
        return plan.mapExpressions(new AbstractFunction1<Expression, Expression>() {
            @Override
            public Expression apply(Expression expression) {
                return transformUp(expression, rule);
            }
        });
    }
}
