package dev.eagre.testing;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** The local file system, as slow as a remote store: each request first waits {@code eagre.slow.ms}. */
public final class SlowFileSystem extends LocalFileSystem {
  private static final String DELAY = "eagre.slow.ms";

  private void pause() throws IOException {
    try {
      Thread.sleep(getConf().getLong(DELAY, 0));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted while waiting for the slow store", e);
    }
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    pause();
    return super.open(path, bufferSize);
  }

  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    pause();
    return super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress);
  }

  @Override
  public boolean rename(Path from, Path to) throws IOException {
    pause();
    return super.rename(from, to);
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    pause();
    return super.delete(path, recursive);
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    pause();
    return super.listStatus(path);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    pause();
    return super.getFileStatus(path);
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) throws IOException {
    pause();
    return super.mkdirs(path, permission);
  }

  /** The same for Hadoop's newer API, which Spark's checkpoints use. */
  public static final class Context extends DelegateToFileSystem {
    /** Called by Hadoop. */
    public Context(URI uri, Configuration conf) throws IOException, URISyntaxException {
      super(URI.create("file:///"), slow(conf), conf, "file", false);
    }

    private static SlowFileSystem slow(Configuration conf) throws IOException {
      SlowFileSystem slow = new SlowFileSystem();
      slow.initialize(URI.create("file:///"), conf);
      return slow;
    }
  }
}
