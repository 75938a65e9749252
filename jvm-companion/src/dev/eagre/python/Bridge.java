package dev.eagre.python;

import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataType;

/** What the Python package calls. */
public final class Bridge {
    private Bridge() {}

    /** A column that calls a function; the arguments are a struct. */
    public static Column column(String name, byte[] code, String returns, String options, Column arguments) {
        FunctionSpec spec = new FunctionSpec(name, code, DataType.fromJson(returns).asNullable(), options);
        return ExpressionUtils.column(
                new PythonFunction(spec, Plans.sequence(List.of(ExpressionUtils.expression(arguments)))));
    }

    /** Starts what the workers of this JVM are forked from, in the background. */
    public static void warm(String options) {
        Thread thread = new Thread(
                () -> {
                    try {
                        Workers.warm(new Options(options));
                    } catch (IOException error) {
                        // The first task meets the same error and tells it.
                    }
                },
                "eagre-python-warm");
        thread.setDaemon(true);
        thread.start();
    }
}
