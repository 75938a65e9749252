package dev.eagre.letters;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** What the Python package calls. */
public final class Columns {
    private Columns() {}

    /**
     * The columns of a record's value; null where there are none.
     *
     * @param record the parsed value, then value, key, headers, topic, partition, offset
     */
    public static Column accepted(String rules, List<Column> record) {
        SparkContext context = SparkSession.active().sparkContext();
        Suspects suspects = Suspects.of(Policy.read(rules).get("pipeline").asText(), context);
        return ExpressionUtils.column(new Accept(new Accept.Rules(rules, suspects), expressions(record)));
    }

    /** Whether a record fits the sink; the columns are the arguments of {@link Fits#fits}. */
    public static Column fits(String rules, List<Column> arguments) {
        Expression target = Literal.fromObject(new Fits(rules), new ObjectType(Fits.class));
        Seq<AbstractDataType> asTheyAre = CollectionConverters.asScala(List.<AbstractDataType>of()).toVector();
        return ExpressionUtils.column(new Invoke(
                target, "fits", DataTypes.BooleanType, expressions(arguments), asTheyAre, false, false, false));
    }

    /** Whether each row is worked off before the next one is read: nothing gathers, sorts or joins them. */
    public static boolean rowByRow(Dataset<Row> rows) {
        LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().analyzed();
        return !plan.exists(new AbstractFunction1<>() {
            @Override
            public Object apply(LogicalPlan node) {
                return !(passes(node) || node instanceof EventTimeWatermark);
            }
        });
    }

    /** Whether a part of a plan works off each row by itself, and keeps nothing. */
    public static boolean passes(LogicalPlan node) {
        return node instanceof Project || node instanceof Filter || node instanceof Generate
                || node instanceof SubqueryAlias || node instanceof Union || node instanceof StreamingRelationV2;
    }

    private static Seq<Expression> expressions(List<Column> columns) {
        List<Expression> found = new ArrayList<>();
        columns.forEach(column -> found.add(ExpressionUtils.expression(column)));
        return CollectionConverters.asScala(found).toVector();
    }
}
