package dev.eagre.python;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/**
 * The step that calls Python functions of a row. Its rows are the columns that pass through, a struct
 * of arguments for each function, and the row's origin, if it is known.
 */
final class FunctionStep extends Plans.Step {
    private final FunctionSpec[] functions;
    private final StructType[] arguments;
    private final int passed;
    private final DataType source;

    FunctionStep(List<FunctionSpec> functions, List<StructType> arguments, int passed, DataType source) {
        this.functions = functions.toArray(FunctionSpec[]::new);
        this.arguments = arguments.toArray(StructType[]::new);
        this.passed = passed;
        this.source = source;
    }

    @Override
    public Iterator<Object> apply(Iterator<Object> rows) {
        Options options = new Options(functions[0].options);
        String names = Arrays.stream(functions).map(f -> f.name).collect(Collectors.joining(", "));
        Failures failures = new Failures(options, names, source);
        try {
            return new Conversation(rows, hello(options), options, failures, arguments, results(), passed);
        } catch (IOException error) {
            throw new UncheckedIOException(error.getMessage(), error);
        }
    }

    private StructType results() {
        StructType type = new StructType();
        for (FunctionSpec function : functions) {
            type = type.add(function.name, function.returns, true);
        }
        return type;
    }

    /** What a new worker is told: the types, the options, and the functions themselves. */
    private Wire hello(Options options) throws IOException {
        ObjectNode spec = options.forWorker();
        ArrayNode names = spec.putArray("names");
        ArrayNode given = spec.putArray("arguments");
        for (int i = 0; i < functions.length; i++) {
            names.add(functions[i].name);
            given.add(Options.JSON.readTree(arguments[i].json()));
        }
        spec.set("returns", Options.JSON.readTree(results().json()));
        return Options.hello(spec, Arrays.stream(functions).map(f -> f.code).toArray(byte[][]::new));
    }
}
