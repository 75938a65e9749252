package dev.eagre.bench.flink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;

/** The checkpoints of earlier runs of the job. */
final class Checkpoints {
    private static final int DEPTH = 3;
    private static final String COMPLETE = "glob:**/chk-*/_metadata";

    private Checkpoints() {}

    /** The newest complete checkpoint below a folder; Flink writes its metadata last, by a rename. */
    static Optional<Path> newest(Path folder) throws IOException {
        try (Stream<Path> below = Files.walk(folder, DEPTH)) {
            return below.filter(folder.getFileSystem().getPathMatcher(COMPLETE)::matches)
                    .max(Comparator.comparingLong(path -> path.toFile().lastModified()))
                    .map(Path::getParent);
        }
    }
}
