package dev.eagre.python;

import dev.eagre.deadletter.QueryContext;
import dev.eagre.python.state.StatefulPlan;
import dev.eagre.python.worker.FunctionOptions;
import dev.eagre.python.worker.FunctionSpec;
import dev.eagre.python.worker.WorkerPool;
import dev.eagre.spark.RowNumber;
import dev.eagre.spark.RowSteps;
import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.classic.RelationalGroupedDataset;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Python functions and processors, as called from Python. */
public final class PythonApi {
    private PythonApi() {}

    /** A column that calls a function; the arguments are a struct. */
    public static Column column(String name, byte[] code, String returns, String options, Column arguments) {
        FunctionSpec spec = new FunctionSpec(name, code, DataType.fromJson(returns).asNullable(), options);
        return ExpressionUtils.column(
                new PythonFunction(spec, RowSteps.sequence(List.of(ExpressionUtils.expression(arguments)))));
    }

    /** The number of each row among the consecutive rows of its record, by its provenance. */
    public static Column rowNumber(Column source) {
        return ExpressionUtils.column(new RowNumber(ExpressionUtils.expression(source)));
    }

    /**
     * The output rows of a stateful processor.
     *
     * @param initial the initial state, grouped; or null
     * @param declared the state variables, as JSON
     * @param output the columns of its results, as JSON
     * @param tickMs how often an idle partition checks its timers; 0 for never
     */
    public static Dataset<Row> transform(
            RelationalGroupedDataset grouped,
            RelationalGroupedDataset initial,
            byte[] code,
            String declared,
            String output,
            String timeMode,
            String options,
            long tickMs) {
        StructType type = (StructType) DataType.fromJson(output).asNullable();
        String completed = QueryContext.complete(options, grouped.df().queryExecution().analyzed());
        return StatefulPlan.transform(grouped, initial, code, declared, type, timeMode, completed, tickMs);
    }

    /** Starts the daemon that forks the workers of this JVM, in the background. */
    public static void warm(String options) {
        Thread thread = new Thread(
                () -> {
                    try {
                        WorkerPool.warm(new FunctionOptions(options));
                    } catch (IOException error) {
                        // The first task gets the same error and reports it.
                    }
                },
                "eagre-python-warm");
        thread.setDaemon(true);
        thread.start();
    }
}
