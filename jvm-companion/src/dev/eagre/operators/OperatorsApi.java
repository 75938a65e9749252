package dev.eagre.operators;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.deadletter.QueryContext;
import dev.eagre.python.codec.RowBytes;
import dev.eagre.spark.NormalizedKeys;
import dev.eagre.spark.RowSteps;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** Stateful operators, as called from Python: Spark's stateful operator with Eagre's processors. */
public final class OperatorsApi {
    private OperatorsApi() {}

    /**
     * Applies an operator to rows.
     *
     * @param given the rows
     * @param name the name of the operator
     * @param keys the number of leading key columns
     * @param spec the settings of the operator, as JSON
     * @param results the columns of its results, as JSON
     */
    public static Dataset<Row> over(Dataset<Row> given, String name, int keys, String spec, String results) {
        Dataset<Row> rows = NormalizedKeys.of(given, keys);
        List<String> columns = Arrays.asList(rows.columns());
        Operator<?> operator = make(name, inQuery(spec, rows.queryExecution().analyzed()), columns.indexOf(Operator.AT), columns.indexOf(Operator.WRITTEN));
        StructType key = new StructType(Arrays.copyOf(rows.schema().fields(), keys));
        Column[] grouping = columns.stream().limit(keys).map(OperatorsApi::quoted).toArray(Column[]::new);
        return rows.groupBy(grouping)
                .as(Encoders.row(key), Encoders.row(rows.schema()))
                .transformWithState(operator, TimeMode.ProcessingTime(), OutputMode.Update(), Encoders.row(type(results)))
                .toDF();
    }

    /** Adds the name of the query's pipeline and its error policy to a spec. */
    private static String inQuery(String spec, LogicalPlan plan) {
        ObjectMapper json = new ObjectMapper();
        try {
            ObjectNode complete = (ObjectNode) json.readTree(spec);
            complete.put("pipeline", QueryContext.pipeline(plan));
            complete.set("errors", json.readTree(QueryContext.policy(plan)));
            return complete.toString();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Operator<?> make(String name, String spec, int at, int written) {
        return switch (name) {
            case "deduplicate" -> new Deduplicate(spec, at, written);
            case "interval_join" -> new IntervalJoin(spec, at, written);
            case "lookup" -> new Lookup(spec, at, written);
            case "session_windows" -> new Sessions(spec, at, written);
            case "top_n" -> new TopN(spec, at, written);
            case "windows" -> new Windows(spec, at, written);
            case "rolling" -> new Rolling(spec, at, written);
            default -> throw new IllegalArgumentException("no operator " + name);
        };
    }

    /**
     * The stateful operators in the plan of rows: Eagre's by name, with the suffix {@code :updates} if they update
     * results; others by Spark's name.
     */
    public static List<String> below(Dataset<Row> rows) {
        List<String> operators = new ArrayList<>();
        collect(rows.queryExecution().analyzed(), operators);
        return operators;
    }

    /** Whether a stateful operator is one of Eagre's. */
    private static boolean isOne(TransformWithState state) {
        return (Object) state.statefulProcessor() instanceof Operator<?>;
    }

    private static void collect(LogicalPlan plan, List<String> operators) {
        if (!plan.isStreaming()) return;
        if (plan instanceof TransformWithState state && isOne(state)) {
            operators.add(state.statefulProcessor().toString());
        } else if (plan.isStateful() || plan instanceof TransformWithState) {
            operators.add(plan.nodeName());
        }
        CollectionConverters.asJava(plan.children()).forEach(child -> collect(child, operators));
    }

    /** Converts a struct to bytes, for rows that an operator only passes on. */
    public static Column packed(Column struct, String type) {
        return bytes(struct, type, false);
    }

    /** Converts bytes back to a struct. */
    public static Column unpacked(Column packed, String type) {
        return bytes(packed, type, true);
    }

    private static Column bytes(Column column, String type, boolean reading) {
        return ExpressionUtils.column(
                new RowBytes(type(type), reading, RowSteps.sequence(List.of(ExpressionUtils.expression(column)))));
    }

    private static StructType type(String json) {
        return (StructType) DataType.fromJson(json).asNullable();
    }

    private static Column quoted(String name) {
        return functions.col("`" + name.replace("`", "``") + "`");
    }
}
