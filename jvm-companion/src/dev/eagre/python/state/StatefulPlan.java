package dev.eagre.python.state;

import dev.eagre.python.codec.RowBytes;
import dev.eagre.spark.NormalizedKeys;
import dev.eagre.spark.RowSteps;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.classic.KeyValueGroupedDataset;
import org.apache.spark.sql.classic.RelationalGroupedDataset;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** Builds the plan of {@code transform_with_state}: Spark's operator with a Python processor. */
public final class StatefulPlan {
    private static final String BYTES = "_row";

    private StatefulPlan() {}

    public static Dataset<Row> transform(
            RelationalGroupedDataset grouped,
            RelationalGroupedDataset initial,
            byte[] code,
            String declared,
            StructType output,
            String timeMode,
            String options,
            long tickMs) {
        TimeMode mode = mode(timeMode);
        Encoded rows = encode(grouped);
        Encoder<Row> keyEncoder = Encoders.row(rows.key);
        PythonProcessor processor =
                new PythonProcessor(options, declared, code, rows.key, rows.input, tickMs);
        KeyValueGroupedDataset<Row, Row> groups = group(rows.data, rows.key).as(keyEncoder, rowsOf(rows.data));
        Dataset<byte[]> results;
        if (initial == null) {
            results = groups.transformWithState(processor, mode, OutputMode.Update(), Encoders.BINARY());
        } else {
            Encoded first = encode(initial);
            results = groups.transformWithState(processor, mode, OutputMode.Update(),
                    group(first.data, first.key).as(keyEncoder, rowsOf(first.data)), Encoders.BINARY(),
                    rowsOf(first.data));
        }
        Column bytes = functions.col("value");
        Expression read = new RowBytes(output, true, RowSteps.sequence(List.of(ExpressionUtils.expression(bytes))));
        return results.toDF().select(ExpressionUtils.column(read).as(BYTES)).select(BYTES + ".*");
    }

    private static Encoder<Row> rowsOf(Dataset<Row> data) {
        return Encoders.row(data.schema());
    }

    private record Encoded(Dataset<Row> data, StructType key, StructType input) {}

    /** The grouping columns, the watermark column, and the whole row as bytes. */
    private static Encoded encode(RelationalGroupedDataset grouped) {
        Dataset<Row> df = grouped.df();
        List<Column> columns = new ArrayList<>();
        List<String> names = new ArrayList<>();
        for (Expression expression : CollectionConverters.asJava(grouped.groupingExprs())) {
            NamedExpression named = ExpressionUtils.toNamed(expression);
            columns.add(ExpressionUtils.column(expression).as(named.name()));
            names.add(named.name());
        }
        for (StructField field : df.schema().fields()) {
            boolean marked = field.metadata().contains(EventTimeWatermark$.MODULE$.delayKey());
            if (marked && !names.contains(field.name())) columns.add(quoted(field.name()));
        }
        Column whole = functions.struct(java.util.Arrays.stream(df.columns()).map(StatefulPlan::quoted).toArray(Column[]::new));
        Expression bytes =
                new RowBytes(df.schema(), false, RowSteps.sequence(List.of(ExpressionUtils.expression(whole))));
        columns.add(ExpressionUtils.column(bytes).as(BYTES));
        Dataset<Row> data = NormalizedKeys.of(df.select(columns.toArray(Column[]::new)), names.size());
        StructType key = new StructType();
        for (String name : names) {
            key = key.add(data.schema().apply(name));
        }
        return new Encoded(data, key, df.schema());
    }

    private static Column quoted(String name) {
        return functions.col("`" + name.replace("`", "``") + "`");
    }

    private static RelationalGroupedDataset group(Dataset<Row> data, StructType key) {
        Column[] columns =
                java.util.Arrays.stream(key.fieldNames()).map(StatefulPlan::quoted).toArray(Column[]::new);
        return data.groupBy(columns);
    }

    private static TimeMode mode(String name) {
        return switch (name) {
            case "ProcessingTime" -> TimeMode.ProcessingTime();
            case "EventTime" -> TimeMode.EventTime();
            default -> TimeMode.None();
        };
    }
}
