package dev.eagre;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** The version of this jar, which the Python package checks first. */
public final class Companion {
    private Companion() {}

    /** The version of the Python package that built this jar; Python rejects any other. */
    public static String version() throws IOException {
        try (InputStream in = Companion.class.getResourceAsStream("version")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8).strip();
        }
    }
}
