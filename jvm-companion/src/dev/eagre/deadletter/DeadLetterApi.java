package dev.eagre.deadletter;

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
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What the Python package calls. */
public final class DeadLetterApi {
    private DeadLetterApi() {}

    /**
     * The columns of a record's value; null where there are none.
     *
     * @param record the parsed value, then value, key, headers, topic, partition, offset
     */
    public static Column accepted(String rules, List<Column> record) {
        SparkContext context = SparkSession.active().sparkContext();
        SuspectRecords suspects = SuspectRecords.of(ErrorPolicy.read(rules).get("pipeline").asText(), context);
        return ExpressionUtils.column(new ParseRecord(new ParseRecord.Rules(rules, suspects), expressions(record)));
    }

    /** Whether a record fits the sink; the columns are the arguments of {@link CheckSize#fits}. */
    public static Column fits(String rules, List<Column> arguments) {
        Expression target = Literal.fromObject(new CheckSize(rules), new ObjectType(CheckSize.class));
        Seq<AbstractDataType> asTheyAre = CollectionConverters.asScala(List.<AbstractDataType>of()).toVector();
        return ExpressionUtils.column(new Invoke(
                target, "fits", DataTypes.BooleanType, expressions(arguments), asTheyAre, false, false, false));
    }

    private static Seq<Expression> expressions(List<Column> columns) {
        List<Expression> found = new ArrayList<>();
        columns.forEach(column -> found.add(ExpressionUtils.expression(column)));
        return CollectionConverters.asScala(found).toVector();
    }
}
