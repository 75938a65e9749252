package dev.eagre.state;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.hadoop.fs.local.LocalFs;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Writes Spark's checkpoint files without starting a process for each.
 *
 * <p>Hadoop's local file system runs {@code chmod} for a file it creates and {@code readlink} for one it
 * renames if its native library is missing, as it is in PySpark. That is about ten processes at every
 * epoch boundary. This class lets the JVM write and rename the files. In an object store it writes each file in
 * place, once, instead of renaming it. It delegates everything else, and every other file system, to the manager that
 * Spark would use.
 *
 * <p>Spark leaves the flush to the disk to the file system, and Hadoop's local one does not flush. Here a
 * file is on the disk before it has its name, and the state of an epoch before the entry of the commit
 * log that names it.
 */
public final class CheckpointFiles implements CheckpointFileManager {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int FORMAT = 1;

    private final CheckpointFileManager spark;
    private final boolean local;
    private final FileSystem store;
    private final Path root;
    private final DurableFiles state;

    /** Called by Spark. */
    public CheckpointFiles(Path path, Configuration conf) throws IOException {
        root = path;
        store = objectStore(path, conf);
        if (store != null) {
            spark = new FileSystemBasedCheckpointFileManager(path, conf);
            local = false;
            state = null;
            return;
        }
        CheckpointFileManager manager;
        boolean isLocal = false;
        try {
            manager = new FileContextBasedCheckpointFileManager(path, conf);
            isLocal = FileContext.getFileContext(path.toUri(), conf).getDefaultFileSystem().getClass() == LocalFs.class;
        } catch (UnsupportedFileSystemException e) {
            manager = new FileSystemBasedCheckpointFileManager(path, conf);
        }
        spark = manager;
        local = isLocal;
        boolean isCommitLog = isLocal && path.getName().equals("commits");
        state = isCommitLog ? new DurableFiles(local(path).resolveSibling("state")) : null;
    }

    /** The file system of a path, if it writes files on a condition; a local one is not even asked. */
    private static FileSystem objectStore(Path path, Configuration conf) throws IOException {
        String scheme = path.toUri().getScheme();
        if (scheme == null || scheme.equals("file")) return null;
        FileSystem files = path.getFileSystem(conf);
        return StoreFile.supported(files, path) ? files : null;
    }

    @Override
    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
        if (!local && store == null) {
            CheckpointClaim.require(path);
            return spark.createAtomic(path, overwrite);
        }
        try {
            return local ? new AtomicFile(local(path), overwrite, state) : new StoreFile(store, path, overwrite);
        } catch (IOException e) {
            throw sneakyThrow(e);
        }
    }

    @Override
    public boolean exists(Path path) {
        return local ? Files.exists(local(path)) : spark.exists(path);
    }

    @Override
    public FSDataInputStream open(Path path) {
        return spark.open(path);
    }

    @Override
    public FileStatus[] list(Path path, PathFilter filter) {
        return spark.list(path, filter);
    }

    @Override
    public void mkdirs(Path path) {
        spark.mkdirs(path);
    }

    @Override
    public void delete(Path path) {
        spark.delete(path);
    }

    @Override
    public boolean isLocal() {
        return spark.isLocal();
    }

    @Override
    public Path createCheckpointDirectory() {
        if (local) requireAdopted(local(root));
        else requireAdoptedRemotely();
        return spark.createCheckpointDirectory();
    }

    @Override
    public void close() {
        spark.close();
    }

    /** Refuses to start a query whose newest commit only Eagre knows: Spark would repeat what came before it. */
    private static void requireAdopted(java.nio.file.Path root) {
        try {
            long last = newest(root.resolve("commits"));
            for (String folder : List.of("mid-epoch-commits", "bookmarks")) {
                long number = newest(root.resolve(folder));
                if (number < 0) continue;
                java.nio.file.Path file = root.resolve(folder).resolve(Long.toString(number));
                if (batch(file, Files.readAllBytes(file)) > last) throw notAdopted(root);
            }
        } catch (IOException e) {
            throw sneakyThrow(e);
        }
    }

    /** The epoch of a mid-epoch commit; throws if this release cannot read it. */
    private static long batch(Object file, byte[] content) throws IOException {
        try {
            JsonNode entries = JSON.readTree(content);
            int format = entries.path("format").asInt(FORMAT);
            if (format > FORMAT) {
                throw new IllegalStateException("CHECKPOINT_NEWER: " + file + " has format " + format
                        + ", and this release of Eagre reads up to " + FORMAT + ": install the release that wrote it, or"
                        + " restore an older copy.");
            }
            if (entries.path("batch").isIntegralNumber()) return entries.path("batch").asLong();
        } catch (JsonProcessingException e) {
            // as if it had no epoch
        }
        throw new IllegalStateException("CHECKPOINT_BROKEN: " + file + " is not a commit: restore it from a backup, or"
                + " remove it to continue from the commit before.");
    }

    /** The same for a checkpoint elsewhere. */
    private void requireAdoptedRemotely() {
        long last = newest(new Path(root, "commits"));
        Path folder = new Path(root, "mid-epoch-commits");
        long number = newest(folder);
        if (number < 0) return;
        Path file = new Path(folder, Long.toString(number));
        try (FSDataInputStream in = open(file)) {
            if (batch(file, in.readAllBytes()) > last) throw notAdopted(root);
        } catch (IOException e) {
            throw sneakyThrow(e);
        }
    }

    private static IllegalStateException notAdopted(Object root) {
        return new IllegalStateException("CHECKPOINT_NOT_ADOPTED: the newest commit of checkpoint " + root
                + " was taken within an epoch, and Spark's logs do not have it yet. Write it there with `eagre"
                + " checkpoint adopt " + root + "`, or start the pipeline with `eagre run`, which does so itself.");
    }

    private long newest(Path log) {
        if (!exists(log)) return -1;
        return Arrays.stream(list(log, path -> path.getName().chars().allMatch(Character::isDigit)))
                .mapToLong(file -> Long.parseLong(file.getPath().getName()))
                .max()
                .orElse(-1);
    }

    /** The highest number among the files of a log; -1 if it has none. */
    private static long newest(java.nio.file.Path log) throws IOException {
        if (!Files.isDirectory(log)) return -1;
        try (Stream<java.nio.file.Path> files = Files.list(log)) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> !name.isEmpty() && name.chars().allMatch(Character::isDigit))
                    .mapToLong(Long::parseLong)
                    .max()
                    .orElse(-1);
        }
    }

    private static java.nio.file.Path local(Path path) {
        return java.nio.file.Path.of(path.toUri().getPath());
    }

    /** Scala's methods declare no exceptions, but Spark catches Java's I/O exceptions. */
    @SuppressWarnings("unchecked")
    private static <T extends Throwable> RuntimeException sneakyThrow(Throwable e) throws T {
        throw (T) e;
    }

    /** A file that appears complete when it is closed, or not at all. */
    private static final class AtomicFile extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final java.nio.file.Path path;
        private final java.nio.file.Path temporary;
        private final boolean overwrite;
        private final DurableFiles before;
        private boolean closed;

        /** Begins a file; {@code before}, unless null, are flushed before it appears. */
        AtomicFile(java.nio.file.Path path, boolean overwrite, DurableFiles before) throws IOException {
            this(path, path.resolveSibling("." + path.getFileName() + "." + UUID.randomUUID() + ".tmp"), overwrite, before);
        }

        private AtomicFile(
                java.nio.file.Path path, java.nio.file.Path temporary, boolean overwrite, DurableFiles before)
                throws IOException {
            super(openTemporary(temporary));
            this.path = path;
            this.temporary = temporary;
            this.overwrite = overwrite;
            this.before = before;
        }

        private static OutputStream openTemporary(java.nio.file.Path temporary) throws IOException {
            Files.createDirectories(temporary.getParent());
            return new BufferedOutputStream(Files.newOutputStream(temporary));
        }

        @Override
        public synchronized void close() throws IOException {
            if (closed) return;
            closed = true;
            try {
                underlyingStream().close();
                if (before != null) before.flush();
                DurableFiles.force(temporary, StandardOpenOption.WRITE);
                if (!overwrite && Files.exists(path)) throw new FileAlreadyExistsException(path + " already exists");
                // Hadoop's checksum of an older file of this name would not match the new one.
                Files.deleteIfExists(path.resolveSibling("." + path.getFileName() + ".crc"));
                Files.move(temporary, path, StandardCopyOption.ATOMIC_MOVE);
                forceFolders();
            } finally {
                Files.deleteIfExists(temporary);
            }
        }

        /** Flushes the folder, and the one above it, in which it may be new. */
        private void forceFolders() throws IOException {
            java.nio.file.Path folder = path.toAbsolutePath().getParent();
            DurableFiles.force(folder, StandardOpenOption.READ);
            if (folder.getParent() != null) DurableFiles.force(folder.getParent(), StandardOpenOption.READ);
        }

        @Override
        public synchronized void cancel() {
            if (closed) return;
            closed = true;
            try {
                underlyingStream().close();
                Files.deleteIfExists(temporary);
            } catch (IOException e) {
                // As in Spark: the remains of a temporary file are never read.
            }
        }
    }
}
