package dev.eagre.broker;

import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.List;

/**
 * Runs Apache Kafka in its own process: formats the data folder if it is new, then starts the broker.
 * Kafka's classes are loaded by name, because the companion is compiled against Spark only.
 *
 * <p>With {@code --tether} the broker does not outlive the program that started it. That program holds the
 * other end of standard input; when standard input ends for any reason, the broker exits.
 */
public final class EmbeddedBroker {
    private EmbeddedBroker() {}

    public static void main(String[] args) throws ReflectiveOperationException {
        String properties = args[0];
        String clusterId = args[1];
        if (List.of(args).contains("--tether")) {
            endWithStandardInput();
        }
        format(properties, clusterId);
        call("kafka.Kafka", "main", new Class<?>[] {String[].class}, (Object) new String[] {properties});
    }

    private static void format(String properties, String clusterId) throws ReflectiveOperationException {
        String[] command = {"format", "--ignore-formatted", "--cluster-id", clusterId, "--config", properties};
        Class<?>[] types = {String[].class, PrintStream.class};
        Object status = call("kafka.tools.StorageTool", "execute", types, command, System.out);
        if (!Integer.valueOf(0).equals(status)) {
            System.exit(1);
        }
    }

    private static Object call(String type, String method, Class<?>[] types, Object... args)
            throws ReflectiveOperationException {
        try {
            return Class.forName(type).getMethod(method, types).invoke(null, args);
        } catch (InvocationTargetException e) {
            e.getCause().printStackTrace();
            System.exit(1);
            throw e;
        }
    }

    private static void endWithStandardInput() {
        Thread tether = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // No data is ever sent; only the end of the stream matters.
                }
            } catch (IOException e) {
                // A broken pipe also means the end.
            }
            Runtime.getRuntime().halt(0);
        }, "eagre-tether");
        tether.setDaemon(true);
        tether.start();
    }
}
