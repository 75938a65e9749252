package dev.eagre.connectors.upsert;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DatabaseAddressTest {
    private static DatabaseAddress address(Map<String, String> spec) {
        return DatabaseAddress.of(new ObjectMapper().valueToTree(spec), "EAGRE_TEST_NO_URL", 6379, "EAGRE_TEST_NO_USER",
                "EAGRE_TEST_NO_PASSWORD");
    }

    private static String refused(Map<String, String> spec) {
        return assertThrows(DatabaseException.class, () -> address(spec)).getMessage();
    }

    @Test
    void aUrlIsParsed() {
        DatabaseAddress address = address(Map.of("url", "rediss://db.example:7000/2?x=1"));
        assertEquals("rediss db.example 7000 2 x=1",
                String.join(" ", address.scheme, address.host, "" + address.port, address.path, address.query));
    }

    @Test
    void missingPartsHaveDefaults() {
        DatabaseAddress address = address(Map.of("url", "redis://db"));
        assertEquals(6379, address.port);
        assertEquals("", address.path);
    }

    @Test
    void userAndPasswordComeFromAFile(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("credentials");
        Files.writeString(file, "user = ann\n\npassword=a=b \n# nothing\n");
        DatabaseAddress address = address(Map.of("url", "redis://db", "credentials", file.toString()));
        assertEquals("ann", address.user);
        assertEquals("a=b", address.password);
    }

    @Test
    void missingSettingsAreReportedWithTheNextStep(@TempDir Path folder) {
        assertTrue(refused(Map.of()).startsWith("URL_MISSING: the environment of this process has no EAGRE_TEST_NO_URL."));
        assertTrue(refused(Map.of("url", "redis://db", "credentials", folder.resolve("none").toString()))
                .startsWith("CREDENTIALS_UNREADABLE"));
    }

    @Test
    void aMalformedUrlIsNotShown() {
        for (String url : new String[] {"redis://:s3cret@", "s3cret", "redis://:s3cret@h ost"}) {
            String message = refused(Map.of("url", url));
            assertTrue(message.startsWith("URL_MALFORMED"), message);
            assertFalse(message.contains("s3cret"), message);
        }
    }
}
