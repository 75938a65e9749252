package dev.eagre.testing;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The files and folders that were flushed to the disk, in order; a run that sets no property has no log. */
public final class FlushLog {
    /** The system property that names the log. */
    private static final String PROPERTY = "eagre.flush.log";

    private FlushLog() {}

    /** Adds a file or folder that has been flushed. */
    public static void add(Path path) throws IOException {
        String log = System.getProperty(PROPERTY);
        if (log == null) return;
        Files.writeString(Path.of(log), path + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
}
