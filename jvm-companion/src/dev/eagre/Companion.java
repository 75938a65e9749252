package dev.eagre;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** What the Python package asks first: which release of Eagre this jar was built for. */
public final class Companion {
    private Companion() {}

    /** The version of the Python package that built this jar; Python refuses any other. */
    public static String version() throws IOException {
        try (InputStream in = Companion.class.getResourceAsStream("version")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8).strip();
        }
    }
}
