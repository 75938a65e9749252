package dev.eagre.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Gives equal keys the same bytes: one NaN, and no minus zero, also in structs and arrays.
 *
 * <p>Spark 4.3 does so for its own aggregations, joins and {@code dropDuplicates}, but not for
 * {@code transformWithState}: a batch compares keys by value, and its state by bytes.
 */
public final class NormalizedKeys {
    private NormalizedKeys() {}

    /** Normalizes the leading columns of rows. */
    public static Dataset<Row> of(Dataset<Row> rows, int keys) {
        List<Attribute> columns = CollectionConverters.asJava(rows.queryExecution().analyzed().output());
        List<Column> normalized = new ArrayList<>();
        boolean changed = false;
        for (Attribute column : columns) {
            Expression value = normalized.size() < keys ? NormalizeFloatingNumbers$.MODULE$.normalize(column) : column;
            changed |= value != column;
            normalized.add(ExpressionUtils.column(value).as(column.name()));
        }
        return changed ? rows.select(normalized.toArray(Column[]::new)) : rows;
    }
}
