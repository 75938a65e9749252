package dev.eagre.deadletter;

import dev.eagre.spark.SparkInternals;
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
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Parsing and size checks, as called from Python. */
public final class DeadLetterApi {
    private DeadLetterApi() {}

    /**
     * The columns of a record's value; null if it cannot be parsed.
     *
     * @param record the parsed value, then value, key, headers, topic, partition, offset
     */
    public static Column parsed(String rules, List<Column> record) {
        SparkContext context = SparkSession.active().sparkContext();
        SuspectRecords suspects = SuspectRecords.of(ErrorPolicy.read(rules).get("pipeline").asText(), context);
        return ExpressionUtils.column(new ParseRecord(new ParseRecord.Rules(rules, suspects), expressions(record)));
    }

    /** The records at which tasks of a query failed: topic, partition, offset; those of each source in their order. */
    public static List<String[]> suspects(StreamingQuery query) {
        List<String[]> suspects = new ArrayList<>();
        for (ParseRecord source : QueryContext.sources(SparkInternals.execution(query).analyzedPlan())) {
            suspects.addAll(source.rules().suspects().positions());
        }
        return suspects;
    }

    /** Whether a record fits into the sink; the columns are the arguments of {@link CheckSize#fits}. */
    public static Column fits(String rules, List<Column> arguments) {
        Expression target = Literal.fromObject(new CheckSize(rules), new ObjectType(CheckSize.class));
        Seq<AbstractDataType> noConversions = CollectionConverters.asScala(List.<AbstractDataType>of()).toVector();
        return ExpressionUtils.column(new Invoke(
                target, "fits", DataTypes.BooleanType, expressions(arguments), noConversions, false, false, false));
    }

    private static Seq<Expression> expressions(List<Column> columns) {
        List<Expression> expressions = new ArrayList<>();
        columns.forEach(column -> expressions.add(ExpressionUtils.expression(column)));
        return CollectionConverters.asScala(expressions).toVector();
    }
}
