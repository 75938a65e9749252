package dev.eagre.connectors.upsert;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * The address and credentials of a database. User and password come from the file that the declaration
 * names, or else from the environment of this process. They never appear in a plan or a setting. This
 * is not a record, because printing a record would show the password.
 */
public final class DatabaseAddress {
    public final String scheme;
    public final String host;
    public final int port;
    public final String path;
    public final String query;
    public final String user;
    public final String password;

    private DatabaseAddress(URI url, int port, Map<String, String> known) {
        this.scheme = url.getScheme();
        this.host = url.getHost();
        this.port = url.getPort() < 0 ? port : url.getPort();
        this.path = url.getPath() == null ? "" : url.getPath().replaceFirst("^/", "");
        this.query = url.getRawQuery();
        this.user = known.get("user");
        this.password = known.get("password");
    }

    /**
     * Reads the address.
     *
     * @param variable the environment variable with the URL, used if the declaration has none
     * @param port the default port
     */
    public static DatabaseAddress of(JsonNode spec, String variable, int port, String userVariable, String passwordVariable) {
        URI url = url(spec, variable);
        Map<String, String> known = new HashMap<>();
        keep(known, "user", System.getenv(userVariable));
        keep(known, "password", System.getenv(passwordVariable));
        String[] login = url.getUserInfo() == null ? new String[0] : url.getUserInfo().split(":", 2);
        keep(known, "user", login.length > 0 ? login[0] : null);
        keep(known, "password", login.length > 1 ? login[1] : null);
        if (spec.hasNonNull("credentials")) known.putAll(file(spec.get("credentials").asText()));
        return new DatabaseAddress(url, port, known);
    }

    private static void keep(Map<String, String> known, String name, String value) {
        if (value != null && !value.isEmpty()) known.put(name, value);
    }

    private static URI url(JsonNode spec, String variable) {
        String text = spec.hasNonNull("url") ? spec.get("url").asText() : System.getenv(variable);
        if (text == null) {
            throw new DatabaseException(
                    "URL_MISSING",
                    "the environment of this process has no " + variable + ".",
                    "set it for the driver and for the executors, or pass url=.");
        }
        try {
            URI url = URI.create(text);
            if (url.getHost() != null) return url;
        } catch (IllegalArgumentException error) {
            // The message would show the URL, which may contain a password.
        }
        throw new DatabaseException(
                "URL_MALFORMED", "the URL in " + variable + " names no host.", "write scheme://host:port/database.");
    }

    /** Reads lines of {@code user=...} and {@code password=...}. */
    private static Map<String, String> file(String path) {
        Map<String, String> entries = new HashMap<>();
        try {
            for (String line : Files.readAllLines(Path.of(path))) {
                int equals = line.indexOf('=');
                if (equals > 0) entries.put(line.substring(0, equals).strip(), line.substring(equals + 1).strip());
            }
        } catch (IOException error) {
            throw new DatabaseException(
                    "CREDENTIALS_UNREADABLE",
                    "the file of credentials " + path + " cannot be read (" + error.getClass().getSimpleName() + ").",
                    "it must be on every machine that runs tasks, with lines user=... and password=...");
        }
        return entries;
    }
}
