package dev.eagre.bench.flink;

import java.net.URI;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.FileSystemFactory;

/** Maps {@code slow:///folder} to the local folder, with a delay for each request. */
public final class SlowFileSystemFactory implements FileSystemFactory {
    @Override
    public String getScheme() {
        return SlowFileSystem.ROOT.getScheme();
    }

    @Override
    public FileSystem create(URI address) {
        return new SlowFileSystem(Long.getLong("eagre.slow.ms", 0));
    }
}
