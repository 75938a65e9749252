package dev.eagre.python.worker;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.cluster.Cluster;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;

/**
 * Starts the Python of the workers once on each executor, before a query needs it. The tasks are Java: Spark's
 * own Python tasks would fail where there is no Python.
 */
public final class InterpreterCheck {
    /** A task may wait for the files that were shipped, and for the other tasks of its JVM. */
    private static final long TASK_MS = 30_000;

    private static final Map<String, String> REPORTS = new ConcurrentHashMap<>();

    private InterpreterCheck() {}

    /**
     * The reports of the executors as a JSON array: the host, and the version and the missing packages, or a problem
     * that prevents the start, or what remains unknown.
     *
     * @param question {@code python}, {@code packages} and {@code timeout_ms} as JSON
     */
    public static String reports(JavaSparkContext spark, String question) throws Exception {
        int slots = Math.max(Cluster.slots(spark.sc()), spark.defaultParallelism());
        long timeout = FunctionOptions.JSON.readTree(question).get("timeout_ms").asLong();
        JavaFutureAction<List<String>> asked = spark.parallelize(Collections.nCopies(slots, question), slots)
                .map(new Ask())
                .collectAsync();
        try {
            return unique(asked.get(timeout + TASK_MS, TimeUnit.MILLISECONDS)).toString();
        } catch (TimeoutException error) {
            asked.cancel(true);
            throw new IOException("the executors did not answer in time", error);
        }
    }

    private static ArrayNode unique(List<String> reports) throws IOException {
        ArrayNode all = FunctionOptions.JSON.createArrayNode();
        for (String report : reports.stream().distinct().toList()) {
            all.add(FunctionOptions.JSON.readTree(report));
        }
        return all;
    }

    /** One of the tasks; the first one of a JVM asks. */
    private static final class Ask implements Function<String, String> {
        @Override
        public String call(String question) {
            return REPORTS.computeIfAbsent(question, InterpreterCheck::report);
        }
    }

    private static String report(String question) {
        ObjectNode report = FunctionOptions.JSON.createObjectNode();
        SparkEnv executor = SparkEnv.get();
        report.put("executor", executor.executorId());
        report.put("host", executor.blockManager().blockManagerId().host());
        try {
            JsonNode asked = FunctionOptions.JSON.readTree(question);
            start(asked, report);
        } catch (InterruptedException | IOException | RuntimeException | ExecutionException error) {
            report.put("unknown", error.toString());
        }
        return report.toString();
    }

    private static void start(JsonNode asked, ObjectNode report)
            throws IOException, InterruptedException, ExecutionException {
        List<String> arguments = new ArrayList<>(List.of("-m", "eagre_worker.probe"));
        asked.get("packages").forEach(name -> arguments.add(name.asText()));
        ProcessBuilder builder =
                WorkerDaemon.python(asked.get("python").asText(), List.of(), arguments).redirectErrorStream(true);
        Process process;
        try {
            process = builder.start();
        } catch (IOException error) {
            report.put("problem", (error.getCause() == null ? error : error.getCause()).getMessage().strip());
            return;
        }
        try {
            process.getOutputStream().close();
            List<String> output = output(process, asked.get("timeout_ms").asLong());
            String last = output.isEmpty() ? "" : output.get(output.size() - 1);
            if (process.waitFor() == 0) report.setAll((ObjectNode) FunctionOptions.JSON.readTree(last));
            else report.put("problem", "it exits with code " + process.exitValue() + ": " + last);
        } catch (TimeoutException error) {
            report.put("unknown", "it did not answer in time");
        } finally {
            process.destroyForcibly();
        }
    }

    private static List<String> output(Process process, long timeout)
            throws InterruptedException, ExecutionException, TimeoutException {
        byte[] bytes = CompletableFuture.supplyAsync(() -> {
                    try {
                        return process.getInputStream().readAllBytes();
                    } catch (IOException error) {
                        return error.toString().getBytes(StandardCharsets.UTF_8);
                    }
                })
                .get(timeout, TimeUnit.MILLISECONDS);
        return new String(bytes, StandardCharsets.UTF_8)
                .lines()
                .map(String::strip)
                .filter(line -> !line.isEmpty())
                .toList();
    }
}
