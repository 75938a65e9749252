package dev.eagre.spark;

import java.util.List;
import java.util.ServiceLoader;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.SimpleFunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Loads the session extensions of the jars on the class path, in place of Spark. MLlib's extension costs a
 * second at every start, for functions that few plans use. Its functions are registered when a plan first
 * uses one of them.
 */
public final class ExtensionProviders {
    private static final String MLLIB = "org.apache.spark.sql.ml.InternalFunctionRegistration";
    private static final List<String> FUNCTIONS = List.of("vector_to_array", "array_to_vector", "aggregate_metrics");

    private ExtensionProviders() {}

    public static void apply(SparkSessionExtensions extensions) {
        ServiceLoader.load(SparkSessionExtensionsProvider.class).stream().forEach(provider -> {
            if (provider.type().getName().equals(MLLIB)) registerLazily(provider);
            else provider.get().apply(extensions);
        });
    }

    private static void registerLazily(ServiceLoader.Provider<SparkSessionExtensionsProvider> provider) {
        SimpleFunctionRegistry registry = FunctionRegistry$.MODULE$.internal();
        for (String name : FUNCTIONS) {
            FunctionIdentifier function = new FunctionIdentifier(name);
            if (registry.functionExists(function)) continue;
            registry.registerFunction(function, new AbstractFunction1<Seq<Expression>, Expression>() {
                @Override
                public Expression apply(Seq<Expression> arguments) {
                    FUNCTIONS.forEach(each -> registry.dropFunction(new FunctionIdentifier(each)));
                    provider.get().apply(new SparkSessionExtensions());
                    return (Expression) registry.lookupFunction(function, arguments);
                }
            }, "internal");
        }
    }
}
