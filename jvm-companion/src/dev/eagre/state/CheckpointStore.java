package dev.eagre.state;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/**
 * The files of checkpoints that only Hadoop reaches, as called from Python: small texts, each written whole. A run that
 * has lost its claim on a checkpoint changes nothing in it any more; see {@link CheckpointClaim}.
 */
public final class CheckpointStore {
    private final Configuration conf;

    /** Opens the stores with the settings of a session. */
    public CheckpointStore(SparkContext spark) {
        this(spark.hadoopConfiguration());
    }

    CheckpointStore(Configuration conf) {
        this.conf = conf;
    }

    /** The names of the files and folders in a folder; empty if there is no such folder. */
    public List<String> list(String folder) throws IOException {
        Path path = new Path(folder);
        try {
            return Arrays.stream(path.getFileSystem(conf).listStatus(path))
                    .map(file -> file.getPath().getName())
                    .toList();
        } catch (FileNotFoundException missing) {
            return List.of();
        }
    }

    /** Whether there is a file or a folder. */
    public boolean exists(String name) throws IOException {
        Path path = new Path(name);
        return path.getFileSystem(conf).exists(path);
    }

    /** The content of a file; null if there is none. */
    public String read(String name) throws IOException {
        Path path = new Path(name);
        try (FSDataInputStream in = path.getFileSystem(conf).open(path)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (FileNotFoundException missing) {
            return null;
        }
    }

    /** Writes a file, in the place of an older one. */
    public void write(String name, String text) throws IOException {
        put(name, text, true);
    }

    /** Writes a file unless there is one with another content; returns whether it holds this content. */
    public boolean create(String name, String text) throws IOException {
        try {
            put(name, text, false);
            return true;
        } catch (FileAlreadyExistsException existing) {
            // The store may have written it and its answer was lost: the client then asks again, and is refused.
            return text.equals(read(name));
        }
    }

    private void put(String name, String text, boolean overwrite) throws IOException {
        Path path = new Path(name);
        CheckpointClaim.require(path);
        CancellableFSDataOutputStream out = new CheckpointFiles(path.getParent(), conf).createAtomic(path, overwrite);
        try {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            out.cancel();
            throw e;
        }
        out.close();
    }

    /** Removes a file, or a folder with all in it; does nothing if there is none. */
    public void delete(String name) throws IOException {
        Path path = new Path(name);
        CheckpointClaim.require(path);
        path.getFileSystem(conf).delete(path, true);
    }

    /** The size of all files in a folder. */
    public long size(String folder) throws IOException {
        Path path = new Path(folder);
        FileSystem files = path.getFileSystem(conf);
        return files.exists(path) ? files.getContentSummary(path).getLength() : 0;
    }
}
