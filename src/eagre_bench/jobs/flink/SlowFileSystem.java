package dev.eagre.bench.flink;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.URI;
import org.apache.flink.core.fs.BlockLocation;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FSDataOutputStream;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream;
import org.apache.flink.core.fs.RecoverableWriter;
import org.apache.flink.core.fs.local.LocalFileSystem;
import org.apache.flink.core.fs.local.LocalRecoverableWriter;

/** The local file system with a delay before each request, as of a remote store. */
final class SlowFileSystem extends FileSystem {
    static final URI ROOT = URI.create("slow:///");

    private final long pauseMs;
    private final LocalFileSystem local = new LocalFileSystem() {
        @Override
        public URI getUri() {
            return ROOT;
        }
    };

    SlowFileSystem(long pauseMs) {
        this.pauseMs = pauseMs;
    }

    void pause() throws InterruptedIOException {
        try {
            Thread.sleep(pauseMs);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException();
        }
    }

    @Override
    public FSDataInputStream open(Path path) throws IOException {
        pause();
        return local.open(path);
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        return open(path);
    }

    @Override
    public FSDataOutputStream create(Path path, WriteMode mode) throws IOException {
        pause();
        return local.create(path, mode);
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        pause();
        return local.rename(from, to);
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        pause();
        return local.delete(path, recursive);
    }

    @Override
    public boolean mkdirs(Path path) throws IOException {
        pause();
        return local.mkdirs(path);
    }

    @Override
    public boolean exists(Path path) throws IOException {
        pause();
        return local.exists(path);
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        pause();
        return local.getFileStatus(path);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        pause();
        return local.listStatus(path);
    }

    @Override
    public BlockLocation[] getFileBlockLocations(FileStatus file, long start, long length)
            throws IOException {
        return local.getFileBlockLocations(file, start, length);
    }

    /** Writes a checkpoint's metadata: the file appears atomically, by a rename. */
    @Override
    public RecoverableWriter createRecoverableWriter() {
        return new LocalRecoverableWriter(local) {
            @Override
            public RecoverableFsDataOutputStream open(Path path) throws IOException {
                pause();
                return new SlowStream(super.open(path));
            }
        };
    }

    @Override
    public Path getWorkingDirectory() {
        return local.getWorkingDirectory();
    }

    @Override
    public Path getHomeDirectory() {
        return local.getHomeDirectory();
    }

    @Override
    public URI getUri() {
        return ROOT;
    }

    @Override
    public boolean isDistributedFS() {
        return true;
    }

    /** A new file with a delay before it is committed; writing is not delayed. */
    private final class SlowStream extends RecoverableFsDataOutputStream {
        private final RecoverableFsDataOutputStream file;

        SlowStream(RecoverableFsDataOutputStream file) {
            this.file = file;
        }

        @Override
        public Committer closeForCommit() throws IOException {
            pause();
            return file.closeForCommit();
        }

        @Override
        public RecoverableWriter.ResumeRecoverable persist() throws IOException {
            pause();
            return file.persist();
        }

        @Override
        public void write(int b) throws IOException {
            file.write(b);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            file.write(bytes, offset, length);
        }

        @Override
        public long getPos() throws IOException {
            return file.getPos();
        }

        @Override
        public void flush() throws IOException {
            file.flush();
        }

        @Override
        public void sync() throws IOException {
            file.sync();
        }

        @Override
        public void close() throws IOException {
            file.close();
        }
    }
}
