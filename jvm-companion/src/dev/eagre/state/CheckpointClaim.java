package dev.eagre.state;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The right of one run to write to a checkpoint in a store that has no locks.
 *
 * <p>A run claims a checkpoint by creating the file {@code eagre-owner/N}, which only one can do for each number, and
 * then writes a new count into {@code eagre-owner/N.beat} every few seconds. Another run is refused while the count
 * changes. When it has not changed for {@link Timing#silenceMs}, the other run claims the next number. No clock of
 * another machine is read.
 *
 * <p>A claim is valid for {@link Timing#leaseMs} after a beat that was written while no newer claim existed. Without a
 * valid claim this JVM neither changes the checkpoint nor lets results of exactly-once pipelines pass: it waits for the next
 * beat, and fails when that finds a newer claim. Because the lease is shorter than the silence, a run that is paused has
 * no valid claim when it wakes up after another one took over.
 */
public final class CheckpointClaim {
    /** What a claim costs and how long a takeover lasts. */
    record Timing(long beatMs, long leaseMs, long silenceMs) {
        static final Timing DEFAULT = new Timing(5_000, 20_000, 30_000);
    }

    private static final Logger LOG = LoggerFactory.getLogger(CheckpointClaim.class);
    private static final String FOLDER = "eagre-owner";
    private static final String ENDED = "ended";
    private static final List<CheckpointClaim> CLAIMS = new CopyOnWriteArrayList<>();

    private final Configuration conf;
    private final CheckpointStore store;
    private final Path root;
    private final Timing timing;
    private long number = -1;
    private long count;
    private Thread beats;
    private volatile long validUntil;
    private volatile boolean lost;
    private volatile boolean released;

    CheckpointClaim(Configuration conf, Path root, Timing timing) {
        this.conf = conf;
        this.store = new CheckpointStore(conf);
        this.root = root;
        this.timing = timing;
    }

    /**
     * Claims a checkpoint for this JVM; a second call has no effect.
     *
     * @return "" if this JVM has it now, "IN_USE" if another run has it, "UNSAFE" if the store lets two runs create the
     *     same file
     */
    public static String take(SparkContext spark, String root) throws IOException, InterruptedException {
        Path path = new Path(root);
        synchronized (CLAIMS) {
            for (CheckpointClaim claim : CLAIMS) {
                if (claim.root.equals(path)) return claim.lost ? "IN_USE" : "";
            }
            CheckpointClaim claim = new CheckpointClaim(spark.hadoopConfiguration(), path, Timing.DEFAULT);
            String refusal = claim.take();
            if (refusal.isEmpty()) CLAIMS.add(claim);
            return refusal;
        }
    }

    /** Gives up the claims of this JVM, whose queries have ended: the next run need not wait. */
    public static void releaseAll() {
        List<CheckpointClaim> held = List.copyOf(CLAIMS);
        CLAIMS.clear();
        held.forEach(CheckpointClaim::release);
    }

    /** Whether another run has claimed a checkpoint of this JVM. */
    public static boolean anyLost() {
        return CLAIMS.stream().anyMatch(claim -> claim.lost);
    }

    /** Waits until this JVM has every checkpoint that it claimed for certain; throws if another run has one. */
    public static void requireAll() {
        for (CheckpointClaim claim : CLAIMS) claim.require();
    }

    /** The same for the checkpoint that a file is in. */
    static void require(Path file) {
        for (CheckpointClaim claim : CLAIMS) {
            if (file.toString().startsWith(claim.root + "/")) claim.require();
        }
    }

    String take() throws IOException, InterruptedException {
        if (!storeIsSafe()) return "UNSAFE";
        long before = newest();
        String seen = before < 0 ? ENDED : beat(before);
        if (!hasEnded(before, seen) && !isSilent(before, seen)) return "IN_USE";
        number = before + 1;
        if (!store.create(file(number), self())) return "IN_USE";
        // The owner may have renewed its lease since the last look; it cannot any more.
        if (!hasEnded(before, seen) && !beat(before).equals(seen)) Thread.sleep(timing.leaseMs());
        if (!renew()) return "IN_USE";
        for (long old = number - 2; old >= 0 && store.exists(file(old)); old--) forget(old);
        resume();
        return "";
    }

    private void forget(long old) throws IOException {
        store.delete(file(old) + ".beat");
        store.delete(file(old));
    }

    /** Whether the store refuses to create a file that exists: some S3-compatible ones ignore the condition. */
    private boolean storeIsSafe() throws IOException {
        boolean renames = List.of("file", "hdfs").contains(String.valueOf(root.toUri().getScheme()));
        if (!renames && !StoreFile.supported(root.getFileSystem(conf), root)) return false;
        String probe = root + "/" + FOLDER + "/probe-" + UUID.randomUUID();
        try {
            return store.create(probe, "first") && !store.create(probe, "second");
        } finally {
            store.delete(probe);
        }
    }

    /** Waits as long as the owner may only be slow; returns whether it has shown no sign of life. */
    private boolean isSilent(long owner, String seen) throws IOException, InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timing.silenceMs());
        while (System.nanoTime() - deadline < 0) {
            Thread.sleep(Math.max(1, timing.beatMs() / 5));
            String now = beat(owner);
            if (now.equals(ENDED)) return true;
            if (!now.equals(seen) || newest() != owner) return false;
        }
        return true;
    }

    private boolean hasEnded(long owner, String seen) throws IOException {
        if (seen.equals(ENDED)) return true;
        String[] process = String.valueOf(store.read(file(owner))).split(" ");
        return process.length == 4 && process[1].equals(machine()) && !start(process[2]).equals(process[3]);
    }

    private long newest() throws IOException {
        return store.list(root + "/" + FOLDER).stream()
                .filter(name -> name.chars().allMatch(Character::isDigit))
                .mapToLong(Long::parseLong)
                .max()
                .orElse(-1);
    }

    private String file(long owner) {
        return root + "/" + FOLDER + "/" + owner;
    }

    private String beat(long owner) throws IOException {
        String text = store.read(file(owner) + ".beat");
        return text == null ? "" : text;
    }

    private void beat() {
        while (!released && !lost) {
            try {
                Thread.sleep(timing.beatMs());
                synchronized (this) {
                    if (!released) renew();
                }
            } catch (InterruptedException e) {
                return;
            } catch (Exception e) { // the lease runs out unless a later beat succeeds
                LOG.warn("the claim on checkpoint {} could not be renewed", root, e);
            }
        }
    }

    /** Writes a beat; returns whether there is no newer claim. */
    private boolean renew() throws IOException {
        long began = System.nanoTime();
        store.write(file(number) + ".beat", Long.toString(++count));
        if (newest() != number) {
            lost = true;
            LOG.error("another run has claimed checkpoint {}", root);
            return false;
        }
        validUntil = began + TimeUnit.MILLISECONDS.toNanos(timing.leaseMs());
        return true;
    }

    void require() {
        while (lost || System.nanoTime() - validUntil > 0) {
            if (lost) {
                throw new IllegalStateException("CHECKPOINT_TAKEN: another run has claimed checkpoint " + root
                        + " while this one was paused or could not reach it");
            }
            if (Thread.currentThread() == beats) return; // a beat is what makes the claim valid
            try {
                Thread.sleep(10);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted while the claim on checkpoint " + root + " is renewed", e);
            }
        }
    }

    /** Writes no more beats until {@link #resume}, as a process that is paused. */
    void pause() throws InterruptedException {
        beats.interrupt();
        beats.join();
    }

    void resume() {
        beats = new Thread(this::beat, "eagre-claim");
        beats.setDaemon(true);
        beats.start();
    }

    synchronized void release() {
        released = true;
        if (lost || number < 0) return;
        try {
            store.write(file(number) + ".beat", ENDED);
        } catch (Exception e) { // the next run waits until the claim is silent
            LOG.warn("the claim on checkpoint {} could not be released", root, e);
        }
    }

    /** This process: a random id, its machine, its process id there, and when it began. */
    private static String self() throws IOException {
        String pid = Long.toString(ProcessHandle.current().pid());
        return String.join(" ", UUID.randomUUID().toString(), machine(), pid, start(pid));
    }

    /** A boot of a machine and a namespace of process ids in it; random where Linux is not there to name them. */
    private static String machine() throws IOException {
        java.nio.file.Path boot = java.nio.file.Path.of("/proc/sys/kernel/random/boot_id");
        java.nio.file.Path processes = java.nio.file.Path.of("/proc/self/ns/pid");
        if (!Files.isReadable(boot) || !Files.isSymbolicLink(processes)) return UUID.randomUUID().toString();
        return Files.readString(boot).strip() + "/" + Files.readSymbolicLink(processes);
    }

    /** When a process of this machine began, in ticks since the boot; "none" if there is no such process. */
    private static String start(String pid) {
        try {
            String stat = Files.readString(java.nio.file.Path.of("/proc", pid, "stat"));
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            return fields[0].equals("Z") ? "none" : fields[19];
        } catch (IOException gone) {
            return "none";
        }
    }
}
