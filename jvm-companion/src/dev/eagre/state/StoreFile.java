package dev.eagre.state;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * A file of an object store, which appears complete when it is closed, or not at all. A file that must not exist yet is
 * written on that condition, which the store itself checks: S3's {@code If-None-Match}. Spark would write a temporary
 * file and rename it, which is a copy in an object store, and replaces what is there.
 */
final class StoreFile extends CheckpointFileManager.CancellableFSDataOutputStream {
    private static final String CONDITION = Options.CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE;
    private static final String NO_PRELIMINARY_CHECKS = "fs.s3a.create.performance";

    private final FileSystem store;
    private final Path path;
    private final boolean overwrite;
    private boolean closed;

    StoreFile(FileSystem store, Path path, boolean overwrite) throws IOException {
        super(open(store, path, overwrite));
        this.store = store;
        this.path = path;
        this.overwrite = overwrite;
    }

    /** Whether a store can write a file on the condition that it does not exist. */
    static boolean supported(FileSystem store, Path path) throws IOException {
        return store.hasPathCapability(path, CONDITION);
    }

    private static FSDataOutputStream open(FileSystem store, Path path, boolean overwrite) throws IOException {
        FSDataOutputStreamBuilder<?, ?> file = store.createFile(path);
        file.overwrite(overwrite).recursive().opt(NO_PRELIMINARY_CHECKS, true);
        if (!overwrite) file.must(CONDITION, true);
        return file.build();
    }

    @Override
    public synchronized void close() throws IOException {
        if (closed) return;
        closed = true;
        try {
            CheckpointClaim.require(path);
            underlyingStream().close();
        } catch (IOException refused) {
            if (overwrite || !exists()) throw refused;
            FileAlreadyExistsException existing = new FileAlreadyExistsException(path + " already exists");
            existing.initCause(refused);
            throw existing;
        }
    }

    private boolean exists() throws IOException {
        try {
            return store.getFileStatus(path) != null;
        } catch (FileNotFoundException missing) {
            return false;
        }
    }

    @Override
    public synchronized void cancel() {
        if (closed) return;
        closed = true;
        ((FSDataOutputStream) underlyingStream()).abort();
    }
}
