package dev.eagre.python.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

class WorkerEnvironmentTest {
    private static Set<String> seen(Map<String, String> variables) {
        Map<String, String> environment = new HashMap<>(variables);
        WorkerEnvironment.removeSecrets(environment);
        return environment.keySet();
    }

    @Test
    void passwordsAreRemovedAndOtherVariablesStay() {
        Map<String, String> variables = Map.of(
                "EAGRE_KAFKA_SASL_PASSWORD", "secret",
                "EAGRE_DASHBOARD_TOKEN", "secret",
                "PGPASSWORD", "secret",
                "REDIS_URL", "redis://:secret@host",
                "MODEL_API_KEY", "used by a function",
                "PATH", "/usr/bin");
        assertEquals(Set.of("MODEL_API_KEY", "PATH"), seen(variables));
    }

    @Test
    void namedVariablesAreKept() {
        Map<String, String> variables =
                Map.of("EAGRE_WORKER_ENV", "PGPASSWORD, REDIS_URL", "PGPASSWORD", "a", "REDIS_URL", "b", "DATABASE_URL", "c");
        assertEquals(Set.of("EAGRE_WORKER_ENV", "PGPASSWORD", "REDIS_URL"), seen(variables));
    }
}
