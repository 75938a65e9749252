package dev.eagre.state;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.hadoop.fs.local.LocalFs;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Spark's checkpoint files without a process for each.
 *
 * <p>Hadoop's local file system runs {@code chmod} for a file it creates and {@code readlink} for one it
 * renames, where its native library is missing, as it is in PySpark: some ten processes at every end of
 * an epoch. Here the JVM writes and renames by itself. Everything else, and every other file system, is
 * left to the manager that Spark would have chosen.
 */
public final class CheckpointFiles implements CheckpointFileManager {
    private final CheckpointFileManager spark;
    private final boolean local;

    /** As Spark makes it. */
    public CheckpointFiles(Path path, Configuration conf) throws IOException {
        CheckpointFileManager chosen;
        boolean here = false;
        try {
            chosen = new FileContextBasedCheckpointFileManager(path, conf);
            here = FileContext.getFileContext(path.toUri(), conf).getDefaultFileSystem().getClass() == LocalFs.class;
        } catch (UnsupportedFileSystemException e) {
            chosen = new FileSystemBasedCheckpointFileManager(path, conf);
        }
        spark = chosen;
        local = here;
    }

    @Override
    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
        if (!local) return spark.createAtomic(path, overwrite);
        try {
            return new Writing(on(path), overwrite);
        } catch (IOException e) {
            throw sneaky(e);
        }
    }

    @Override
    public boolean exists(Path path) {
        return local ? Files.exists(on(path)) : spark.exists(path);
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
        return spark.createCheckpointDirectory();
    }

    @Override
    public void close() {
        spark.close();
    }

    private static java.nio.file.Path on(Path path) {
        return java.nio.file.Path.of(path.toUri().getPath());
    }

    /** Scala's methods declare no exceptions, and Spark waits for those of Java's files. */
    @SuppressWarnings("unchecked")
    private static <T extends Throwable> RuntimeException sneaky(Throwable e) throws T {
        throw (T) e;
    }

    /** A file that is there whole when it is closed, or never. */
    private static final class Writing extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final java.nio.file.Path path;
        private final java.nio.file.Path part;
        private final boolean overwrite;
        private boolean over;

        Writing(java.nio.file.Path path, boolean overwrite) throws IOException {
            this(path, path.resolveSibling("." + path.getFileName() + "." + UUID.randomUUID() + ".tmp"), overwrite);
        }

        private Writing(java.nio.file.Path path, java.nio.file.Path part, boolean overwrite) throws IOException {
            super(opened(part));
            this.path = path;
            this.part = part;
            this.overwrite = overwrite;
        }

        private static OutputStream opened(java.nio.file.Path part) throws IOException {
            Files.createDirectories(part.getParent());
            return new BufferedOutputStream(Files.newOutputStream(part));
        }

        @Override
        public synchronized void close() throws IOException {
            if (over) return;
            over = true;
            try {
                underlyingStream().close();
                if (!overwrite && Files.exists(path)) throw new FileAlreadyExistsException(path + " is there already");
                // Hadoop's checksum of an older file of this name would not fit the new one.
                Files.deleteIfExists(path.resolveSibling("." + path.getFileName() + ".crc"));
                Files.move(part, path, StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(part);
            }
        }

        @Override
        public synchronized void cancel() {
            if (over) return;
            over = true;
            try {
                underlyingStream().close();
                Files.deleteIfExists(part);
            } catch (IOException e) {
                // As with Spark's own: what is left of the part is never read.
            }
        }
    }
}
