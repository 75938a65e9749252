package dev.eagre.state;

import dev.eagre.testing.FlushLog;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Flushes the files of a folder to the disk, each once. Spark leaves that to the file system. A commit must not name
 * state that a power failure could still take away.
 */
public final class DurableFiles {
    private final Path folder;
    private Set<Path> durable = Set.of();

    /** Creates the files of a folder on a local disk; files never change after they appear in it. */
    public DurableFiles(Path folder) {
        this.folder = folder;
    }

    /**
     * Flushes the files that are new since the last call, and the folders they are in.
     *
     * @return how many files were flushed
     */
    public synchronized int flush() throws IOException {
        if (!Files.isDirectory(folder)) return 0;
        Set<Path> present = files();
        Set<Path> folders = new HashSet<>();
        int flushed = 0;
        for (Path file : present) {
            if (durable.contains(file) || !force(file, StandardOpenOption.WRITE)) continue;
            flushed++;
            for (Path parent = file.getParent(); parent.startsWith(folder); parent = parent.getParent()) folders.add(parent);
        }
        for (Path changed : folders) force(changed, StandardOpenOption.READ);
        durable = present;
        return flushed;
    }

    private Set<Path> files() throws IOException {
        try (Stream<Path> all = Files.find(folder, Integer.MAX_VALUE, (path, attributes) -> attributes.isRegularFile())) {
            return all.filter(path -> !path.getFileName().toString().endsWith(".tmp")).collect(Collectors.toSet());
        } catch (java.io.UncheckedIOException deleted) {
            if (deleted.getCause() instanceof NoSuchFileException) return files();
            throw deleted.getCause();
        }
    }

    /** Flushes a file or folder; returns false if it is gone, because Spark deletes old files meanwhile. */
    static boolean force(Path path, StandardOpenOption option) throws IOException {
        try (FileChannel channel = FileChannel.open(path, Set.copyOf(List.of(option)))) {
            channel.force(true);
            FlushLog.add(path);
            return true;
        } catch (NoSuchFileException deleted) {
            return false;
        }
    }
}
