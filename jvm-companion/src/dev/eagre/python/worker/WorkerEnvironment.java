package dev.eagre.python.worker;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The environment of Python workers: that of the JVM, without the variables in which Eagre and its sinks
 * find passwords. Functions rarely need them, and anything that a function imports could read them.
 */
final class WorkerEnvironment {
    /** Names the variables, separated by commas, that workers see nevertheless. */
    static final String ALLOWED = "EAGRE_WORKER_ENV";

    private static final String KAFKA = "EAGRE_KAFKA_";
    private static final Set<String> SECRETS = Set.of(
            "EAGRE_DASHBOARD_TOKEN", "DATABASE_URL", "PGPASSWORD", "REDIS_URL", "REDIS_PASSWORD", "PYSPARK_GATEWAY_SECRET");

    private WorkerEnvironment() {}

    /** Removes the secrets from an environment. */
    static void removeSecrets(Map<String, String> environment) {
        Set<String> allowed = Arrays.stream(environment.getOrDefault(ALLOWED, "").split(","))
                .map(String::strip)
                .collect(Collectors.toSet());
        environment.keySet().removeIf(name -> isSecret(name) && !allowed.contains(name));
    }

    private static boolean isSecret(String name) {
        return name.startsWith(KAFKA) || SECRETS.contains(name);
    }
}
