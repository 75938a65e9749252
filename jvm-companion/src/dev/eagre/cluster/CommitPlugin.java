package dev.eagre.cluster;

import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Connects the driver with the executors of a cluster, for commits within an epoch. The executors ask the driver what to
 * do, over Spark's own RPC, because its plugins cannot call an executor.
 */
public final class CommitPlugin implements SparkPlugin {
    @Override
    public DriverPlugin driverPlugin() {
        return new Driver();
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return new ExecutorAgent();
    }

    private static final class Driver implements DriverPlugin {
        private final Executors executors = new Executors();

        @Override
        public Map<String, String> init(SparkContext context, PluginContext plugin) {
            context.addSparkListener(executors);
            Executors.use(executors);
            return Map.of();
        }

        @Override
        public Object receive(Object message) throws Exception {
            return executors.receive((String) message);
        }

        @Override
        public void shutdown() {
            Executors.use(null);
        }
    }
}
