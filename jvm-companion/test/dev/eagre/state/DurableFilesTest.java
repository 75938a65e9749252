package dev.eagre.state;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DurableFilesTest {
    @TempDir
    Path checkpoint;

    private void write(String name) throws IOException {
        Path path = checkpoint.resolve("state").resolve(name);
        Files.createDirectories(path.getParent());
        Files.writeString(path, name);
    }

    @Test
    void eachFileIsFlushedOnce() throws IOException {
        DurableFiles files = new DurableFiles(checkpoint.resolve("state"));
        assertEquals(0, files.flush(), "there is no state yet");
        write("0/0/1_a.changelog");
        write("0/1/1_b.changelog");
        assertEquals(2, files.flush());
        assertEquals(0, files.flush());
        write("0/1/2_c.changelog");
        assertEquals(1, files.flush());
    }

    @Test
    void unfinishedFilesAreLeftAlone() throws IOException {
        DurableFiles files = new DurableFiles(checkpoint.resolve("state"));
        write("0/0/.1_a.changelog.tmp");
        assertEquals(0, files.flush());
    }

    @Test
    void aFileThatReturnsIsFlushedAgain() throws IOException {
        DurableFiles files = new DurableFiles(checkpoint.resolve("state"));
        write("0/0/1_a.zip");
        assertEquals(1, files.flush());
        Files.delete(checkpoint.resolve("state/0/0/1_a.zip"));
        assertEquals(0, files.flush());
        write("0/0/1_a.zip");
        assertEquals(1, files.flush());
    }
}
