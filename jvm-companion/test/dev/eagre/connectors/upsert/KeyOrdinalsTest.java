package dev.eagre.connectors.upsert;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

class KeyOrdinalsTest {
    private final KeyOrdinals ordinals = new KeyOrdinals();

    private int next(String source, long offset, String... key) {
        return ordinals.next(source, offset, List.of(key));
    }

    @Test
    void rowsOfOneRecordAndKeyAreNumbered() {
        assertEquals(0, next("in/0", 5, "a"));
        assertEquals(1, next("in/0", 5, "a"));
        assertEquals(2, next("in/0", 5, "a"));
    }

    @Test
    void eachKeyOfARecordIsNumberedSeparately() {
        assertEquals(0, next("in/0", 5, "a"));
        assertEquals(0, next("in/0", 5, "b"));
        assertEquals(1, next("in/0", 5, "a"));
        assertEquals(0, next("in/0", 5, "a", "b"));
    }

    @Test
    void theNextRecordStartsAtZero() {
        next("in/0", 5, "a");
        assertEquals(0, next("in/0", 6, "a"));
        assertEquals(0, next("in/0", 5, "a"), "a record that is read again has the same numbers");
    }

    @Test
    void sourcesAreIndependent() {
        next("in/0", 5, "a");
        next("in/1", 5, "a");
        assertEquals(1, next("in/0", 5, "a"));
    }
}
