package dev.eagre.python;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.python.codec.WireBuffer;
import dev.eagre.python.worker.FunctionErrors;
import dev.eagre.python.worker.FunctionOptions;
import dev.eagre.python.worker.FunctionSpec;
import dev.eagre.python.worker.WorkerChannel;
import dev.eagre.spark.RowSteps;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/**
 * The step that calls Python functions for a row. Its input rows are the columns that pass through, a
 * struct of arguments for each function, and the row's provenance, if it is known.
 */
final class FunctionStep extends RowSteps.Step {
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
        FunctionOptions options = new FunctionOptions(functions[0].options);
        String names = Arrays.stream(functions).map(f -> f.name).collect(Collectors.joining(", "));
        FunctionErrors failures = new FunctionErrors(options, names, source);
        try {
            return new WorkerChannel(rows, hello(options), options, failures, arguments, results(), passed);
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

    /** The first message to a worker: the types, the options, and the functions. */
    private WireBuffer hello(FunctionOptions options) throws IOException {
        ObjectNode spec = options.forWorker();
        ArrayNode names = spec.putArray("names");
        ArrayNode types = spec.putArray("arguments");
        for (int i = 0; i < functions.length; i++) {
            names.add(functions[i].name);
            types.add(FunctionOptions.JSON.readTree(arguments[i].json()));
        }
        spec.set("returns", FunctionOptions.JSON.readTree(results().json()));
        return FunctionOptions.hello(spec, Arrays.stream(functions).map(f -> f.code).toArray(byte[][]::new));
    }
}
