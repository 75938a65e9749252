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
 * The workers of this JVM. A task borrows one and gives it back when its epoch ends, so that a model
 * is loaded once for a query and not once for an epoch.
 */
public final class WorkerPool {
    private static final long IDLE_NANOS = TimeUnit.MINUTES.toNanos(5);
    private static final long LEAVE_SECONDS = 10;
    private static final long LOOK_MS = 50;

    private static final Map<String, WorkerDaemon> DAEMONS = new HashMap<>();
    private static final Map<String, Deque<Worker>> IDLE = new HashMap<>();
    private static final Set<Worker> ALL = new HashSet<>();

    private static final ScheduledExecutorService WATCHDOG = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "eagre-python-watchdog");
        thread.setDaemon(true);
        return thread;
    });

    static {
        WATCHDOG.scheduleWithFixedDelay(WorkerPool::look, LOOK_MS, LOOK_MS, TimeUnit.MILLISECONDS);
    }

    private WorkerPool() {}

    /** What tells one set of functions from another. */
    public static String key(WireBuffer hello) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(Arrays.copyOf(hello.bytes, hello.size()));
            return HexFormat.of().formatHex(digest);
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Gives a worker that has loaded the functions of {@code hello}. */
    public static Worker lease(String key, WireBuffer hello, FunctionOptions options) throws IOException {
        synchronized (IDLE) {
            Deque<Worker> idle = IDLE.getOrDefault(key, new ArrayDeque<>());
            while (!idle.isEmpty()) {
                Worker worker = idle.pop();
                if (worker.alive()) return worker;
                ALL.remove(worker);
            }
        }
        return fresh(key, hello, options);
    }

    /** Gives a worker that has done nothing yet. */
    public static Worker fresh(String key, WireBuffer hello, FunctionOptions options) throws IOException {
        Worker worker = new Worker(key, connect(options), hello, options.timeoutNanos());
        synchronized (IDLE) {
            ALL.add(worker);
        }
        return worker;
    }

    /** Takes back a worker that waits for the next message. */
    public static void release(Worker worker) {
        worker.answered();
        worker.idleSince = System.nanoTime();
        synchronized (IDLE) {
            IDLE.computeIfAbsent(worker.key, key -> new ArrayDeque<>()).push(worker);
        }
    }

    /** Ends a worker that is dead, late, or in an unknown state. */
    public static void discard(Worker worker) {
        worker.close();
        synchronized (IDLE) {
            ALL.remove(worker);
        }
    }

    /** Goes on only if a worker failed: an interrupted task's connection closes by itself. */
    public static void requireRunning(IOException error) {
        TaskContext task = TaskContext.get();
        if (task != null && task.isInterrupted()) throw new TaskKilledException();
        if (error instanceof ClosedByInterruptException || error instanceof Worker.Refused) {
            throw new UncheckedIOException(error.getMessage(), error);
        }
    }

    /** Starts the parent of the workers, so that the first task need not wait for it. */
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

    /** Lets a worker close what it has open; ends it if it takes its time. */
    private static void dismiss(Worker worker) {
        worker.hangUp();
        WATCHDOG.schedule(() -> discard(worker), LEAVE_SECONDS, TimeUnit.SECONDS);
    }

    /** Ends workers that are late, and those that nobody has used for five minutes. */
    private static void look() {
        long now = System.nanoTime();
        List<Worker> working;
        List<Worker> old = new ArrayList<>();
        synchronized (IDLE) {
            for (Deque<Worker> idle : IDLE.values()) {
                while (!idle.isEmpty() && now - idle.peekLast().idleSince > IDLE_NANOS) {
                    old.add(idle.pollLast());
                }
            }
            working = new ArrayList<>(ALL);
        }
        working.forEach(worker -> worker.enforceLimit(now));
        old.forEach(WorkerPool::dismiss);
    }
}
