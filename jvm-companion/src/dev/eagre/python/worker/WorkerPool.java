package dev.eagre.python.worker;

import dev.eagre.python.codec.WireBuffer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SocketChannel;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;

/**
 * The pool of workers of this JVM. A task leases a worker and returns it at the epoch boundary, so that a
 * model is loaded once per query, not once per epoch.
 */
public final class WorkerPool {
    private static final long IDLE_NANOS = TimeUnit.MINUTES.toNanos(5);
    private static final long EXIT_SECONDS = 10;
    private static final long SWEEP_MS = 50;

    private static final Map<String, WorkerDaemon> DAEMONS = new HashMap<>();
    private static final Map<String, Deque<Worker>> IDLE = new HashMap<>();
    private static final Set<Worker> ALL = new HashSet<>();

    private static final ScheduledExecutorService WATCHDOG = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "eagre-python-watchdog");
        thread.setDaemon(true);
        return thread;
    });

    static {
        WATCHDOG.scheduleWithFixedDelay(WorkerPool::sweep, SWEEP_MS, SWEEP_MS, TimeUnit.MILLISECONDS);
    }

    private WorkerPool() {}

    /** Identifies a set of functions. */
    public static String key(WireBuffer hello) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(Arrays.copyOf(hello.bytes, hello.size()));
            return HexFormat.of().formatHex(digest);
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Leases a worker that has loaded the functions of {@code hello}. */
    public static Worker lease(String key, WireBuffer hello, FunctionOptions options) throws IOException {
        synchronized (IDLE) {
            Deque<Worker> idle = IDLE.getOrDefault(key, new ArrayDeque<>());
            while (!idle.isEmpty()) {
                Worker worker = idle.pop();
                if (worker.alive()) return worker;
                ALL.remove(worker);
            }
        }
        return create(key, hello, options);
    }

    /** Creates a worker. */
    public static Worker create(String key, WireBuffer hello, FunctionOptions options) throws IOException {
        Worker worker = new Worker(key, connect(options), hello, options.timeoutNanos());
        synchronized (IDLE) {
            ALL.add(worker);
        }
        return worker;
    }

    /** Returns a worker that waits for the next message. */
    public static void release(Worker worker) {
        worker.answered();
        worker.idleSince = System.nanoTime();
        synchronized (IDLE) {
            IDLE.computeIfAbsent(worker.key, key -> new ArrayDeque<>()).push(worker);
        }
    }

    /** Kills a worker that is dead, late, or in an unknown state. */
    public static void discard(Worker worker) {
        worker.close();
        synchronized (IDLE) {
            ALL.remove(worker);
        }
    }

    /** Returns only if a worker failed; throws if the task was interrupted, which also closes the connection. */
    public static void requireRunning(IOException error) {
        TaskContext task = TaskContext.get();
        if (task != null && task.isInterrupted()) throw new TaskKilledException();
        if (error instanceof ClosedByInterruptException || error instanceof Worker.LoadFailed) {
            throw new UncheckedIOException(error.getMessage(), error);
        }
    }

    /** Starts the daemon, so that the first task does not wait for it. */
    public static void warm(FunctionOptions options) throws IOException {
        daemon(options);
    }

    private static SocketChannel connect(FunctionOptions options) throws IOException {
        return daemon(options).connect();
    }

    private static synchronized WorkerDaemon daemon(FunctionOptions options) throws IOException {
        String key = options.python() + "\0" + String.join("\0", options.path());
        WorkerDaemon daemon = DAEMONS.get(key);
        if (daemon == null || !daemon.alive()) {
            daemon = WorkerDaemon.start(options.python(), options.path());
            DAEMONS.put(key, daemon);
        }
        return daemon;
    }

    /** Lets a worker shut down; kills it if it takes too long. */
    static void dismiss(Worker worker) {
        worker.answered();
        worker.disconnect();
        WATCHDOG.schedule(() -> discard(worker), EXIT_SECONDS, TimeUnit.SECONDS);
    }

    /** Kills workers that are late, and shuts down those unused for five minutes. */
    private static void sweep() {
        long now = System.nanoTime();
        List<Worker> workers;
        List<Worker> unused = new ArrayList<>();
        synchronized (IDLE) {
            for (Deque<Worker> idle : IDLE.values()) {
                while (!idle.isEmpty() && now - idle.peekLast().idleSince > IDLE_NANOS) {
                    unused.add(idle.pollLast());
                }
            }
            workers = new ArrayList<>(ALL);
        }
        workers.forEach(worker -> worker.enforceLimit(now));
        unused.forEach(WorkerPool::dismiss);
    }
}
