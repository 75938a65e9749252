package dev.eagre.python.worker;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URISyntaxException;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkFiles;
import org.apache.spark.api.python.PythonUtils;

/**
 * The Python process that forks the workers of this JVM. It exits when its standard input ends, so it
 * cannot outlive the JVM. Its workers exit with it.
 */
final class WorkerDaemon {
    private final Process process;
    private final Path socket;

    private WorkerDaemon(Process process, Path socket) {
        this.process = process;
        this.socket = socket;
    }

    static WorkerDaemon start(String python, List<String> path) throws IOException {
        Path folder = Files.createTempDirectory("eagre-");
        Path socket = folder.resolve("workers");
        ProcessBuilder builder = python(python, path, List.of("-m", "eagre_worker", socket.toString()));
        builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        Process process;
        try {
            process = builder.start();
        } catch (IOException error) {
            throw new IOException("Python cannot be started as " + python + ": " + error.getMessage(), error);
        }
        String line = new BufferedReader(
                        new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))
                .readLine();
        if (!"ready".equals(line)) {
            process.destroyForcibly();
            throw new IOException(python + " did not start the workers; see its output in the log");
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> remove(process, socket)));
        return new WorkerDaemon(process, socket);
    }

    /** A Python process with the environment of the workers. */
    static ProcessBuilder python(String python, List<String> path, List<String> arguments) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(python);
        builder.command().addAll(arguments);
        Map<String, String> environment = builder.environment();
        WorkerEnvironment.removeSecrets(environment);
        environment.put("PYTHONPATH", String.join(File.pathSeparator, pythonPath(path)));
        environment.put("PYTHONHASHSEED", "0");
        environment.put("PYTHONUNBUFFERED", "1");
        return builder;
    }

    boolean alive() {
        return process.isAlive();
    }

    long pid() {
        return process.pid();
    }

    SocketChannel connect() throws IOException {
        return SocketChannel.open(UnixDomainSocketAddress.of(socket));
    }

    /** The search path: the companion jar with the workers' code, the driver's path, shipped files, and Spark. */
    private static List<String> pythonPath(List<String> path) throws IOException {
        List<String> entries = new ArrayList<>();
        try {
            entries.add(Path.of(WorkerDaemon.class.getProtectionDomain().getCodeSource().getLocation().toURI())
                    .toString());
        } catch (URISyntaxException error) {
            throw new IOException(error);
        }
        entries.addAll(path);
        File shipped = new File(SparkFiles.getRootDirectory());
        entries.add(shipped.getPath());
        File[] archives = shipped.listFiles((folder, name) -> name.matches(".*\\.(zip|egg|whl)"));
        for (File archive : archives == null ? new File[0] : archives) {
            entries.add(archive.getPath());
        }
        if (path.isEmpty()) {
            entries.add(PythonUtils.sparkPythonPath());
        }
        return entries;
    }

    private static void remove(Process process, Path socket) {
        process.destroyForcibly();
        socket.toFile().delete();
        socket.getParent().toFile().delete();
    }
}
