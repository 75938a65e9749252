package dev.eagre.connectors.redis;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class RedisKeyTest {
    @Test
    void differentValuesHaveDifferentKeys() {
        List<String> parts = List.of("", "x", ":", "%", "::", "%3A", "x:", ":x", "é");
        RedisKey key = new RedisKey(List.of("t:", ":", "é", ""));
        Set<String> keys = new HashSet<>();
        for (String a : parts) {
            for (String b : parts) {
                for (String c : parts) {
                    keys.add(key.of(List.of(a, b, c)));
                }
            }
        }
        assertEquals(parts.size() * parts.size() * parts.size(), keys.size());
    }

    @Test
    void separatorsInValuesAreEncoded() {
        RedisKey key = new RedisKey(List.of("totals:", ":", ""));
        assertEquals("totals:x%3Ay:z", key.of(List.of("x:y", "z")));
        assertEquals("totals:x:y%3Az", key.of(List.of("x", "y:z")));
        assertEquals("totals:50%25:z", key.of(List.of("50%", "z")));
        assertEquals("totals:plain:text", key.of(List.of("plain", "text")));
    }

    @Test
    void aSingleColumnIsNotChanged() {
        assertEquals("totals:x:50%:end", new RedisKey(List.of("totals:", ":end")).of(List.of("x:50%")));
    }
}
