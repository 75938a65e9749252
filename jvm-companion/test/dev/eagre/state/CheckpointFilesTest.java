package dev.eagre.state;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CheckpointFilesTest {
    private static final Configuration HADOOP = new Configuration();

    @TempDir
    java.nio.file.Path folder;

    private CheckpointFiles files;
    private Path file;

    @BeforeEach
    void open() throws IOException {
        files = new CheckpointFiles(new Path(folder.toUri()), HADOOP);
        file = at("offsets/0");
    }

    private Path at(String name) {
        return new Path(new Path(folder.toUri()), name);
    }

    private void write(Path path, String text, boolean overwrite) throws IOException {
        try (CancellableFSDataOutputStream out = files.createAtomic(path, overwrite)) {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        }
    }

    private String read(Path path) throws IOException {
        try (FSDataInputStream in = files.open(path)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    private List<String> names() throws IOException {
        try (Stream<java.nio.file.Path> all = Files.walk(folder)) {
            return all.filter(Files::isRegularFile).map(one -> one.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void aFileAppearsCompleteWhenItIsClosed() throws IOException {
        CancellableFSDataOutputStream out = files.createAtomic(file, false);
        out.write("half".getBytes(StandardCharsets.UTF_8));
        out.flush();
        assertFalse(files.exists(file));
        out.close();
        assertTrue(files.exists(file));
        assertEquals("half", read(file));
        assertEquals(List.of("0"), names());
        out.close();
        assertEquals("half", read(file), "closing again changes nothing");
    }

    @Test
    void anExistingFileIsNotOverwritten() throws IOException {
        write(file, "first", false);
        assertThrows(FileAlreadyExistsException.class, () -> write(file, "second", false));
        assertEquals("first", read(file));
        assertEquals(List.of("0"), names(), "no temporary file remains");
    }

    @Test
    void aFileIsOverwrittenOnRequest() throws IOException {
        write(file, "first, and longer", true);
        write(file, "second", true);
        assertEquals("second", read(file));
    }

    @Test
    void aCancelledFileNeverAppears() throws IOException {
        CancellableFSDataOutputStream out = files.createAtomic(file, true);
        out.write(1);
        out.cancel();
        out.cancel();
        out.close();
        assertFalse(files.exists(file));
        assertEquals(List.of(), names());
    }

    /** Spark's manager has written the file before, with a checksum file. */
    @Test
    void anOldChecksumDoesNotInvalidateTheNewFile() throws IOException {
        write(file, "old", true);
        Files.write(folder.resolve("offsets/.0.crc"), new byte[] {'c', 'r', 'c', 0, 0, 0, 2, 0, 9, 9, 9, 9});
        write(file, "new", true);
        assertEquals("new", read(file));
    }

    @Test
    void temporaryFilesAreNotListed() throws IOException {
        write(file, "whole", false);
        CancellableFSDataOutputStream out = files.createAtomic(at("offsets/1"), false);
        String[] listed = Arrays.stream(files.list(at("offsets"), path -> path.getName().matches("\\d+")))
                .map(one -> one.getPath().getName())
                .toArray(String[]::new);
        assertArrayEquals(new String[] {"0"}, listed);
        out.cancel();
    }

    @Test
    void aMissingFileIsReported() {
        assertFalse(files.exists(file));
        assertThrows(IOException.class, () -> read(file));
        files.delete(file);
        assertTrue(files.isLocal());
    }

    @Test
    void aFolderThatCannotBeCreatedIsAnIoError() throws IOException {
        Files.writeString(folder.resolve("offsets"), "a file");
        assertThrows(IOException.class, () -> write(file, "x", false));
    }

    @Test
    void oneOfManyWritersOfAFileWins() throws Exception {
        CancellableFSDataOutputStream first = files.createAtomic(file, false);
        CancellableFSDataOutputStream second = files.createAtomic(file, false);
        first.write('1');
        second.write('2');
        second.close();
        assertThrows(FileAlreadyExistsException.class, first::close);
        assertEquals("2", read(file));
        assertEquals(List.of("0"), names());
    }
}
