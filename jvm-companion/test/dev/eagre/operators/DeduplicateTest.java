package dev.eagre.operators;

import static dev.eagre.operators.Keyed.SECOND;
import static dev.eagre.operators.Keyed.at;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class DeduplicateTest {
    private final Keyed keyed =
            new Keyed(Deduplicate::new, "'within':" + 10 * SECOND + ",'keeps_ms':20000");

    @Test
    void onlyTheFirstRowWithinTheIntervalPasses() {
        assertEquals(List.of("a"), keyed.put(at(0, "a"), at(0, "b"), at(10, "c")));
        assertEquals(List.of("d"), keyed.put(at(10.000001, "d")));
    }

    @Test
    void aDuplicateDoesNotExtendTheInterval() {
        assertEquals(List.of("a", "c"), keyed.put(at(0, "a"), at(9, "b"), at(11, "c")));
    }

    @Test
    void anOlderRowIsADuplicate() {
        assertEquals(List.of("a"), keyed.put(at(5, "a"), at(-5, "b")));
        keyed.put(at(20, "c"));
        assertEquals(List.of(), keyed.put(at(9, "late")), "too late to be distinguished from a duplicate");
    }

    @Test
    void stateSurvivesARestartAndExpires() {
        keyed.put(at(0, "a"));
        keyed.restart();
        assertEquals(List.of(), keyed.put(at(1, "b")));
        keyed.pass(21);
        assertTrue(keyed.isExpired());
        assertEquals(List.of("c"), keyed.put(at(2, "c")));
    }

    @Test
    void theStateExpiresExactlyAtItsEnd() {
        keyed.put(at(0, "a"));
        keyed.pass(19.999);
        assertEquals(List.of(), keyed.put(at(1, "b")));
        keyed.pass(19.999);
        assertEquals(List.of(), keyed.put(at(1, "c")), "each row of the key keeps the state");
        keyed.pass(20);
        assertEquals(List.of("d"), keyed.put(at(1, "d")));
    }

    @Test
    void aRowAtTheLimitOfTheIntervalIsNotLate() {
        keyed.put(at(0, "a"), at(30, "b"));
        assertEquals(List.of(), keyed.put(at(20, "c")), "a duplicate of the second, not late");
        assertEquals(List.of("d"), keyed.put(at(41, "d"), at(31, "e")));
    }
}
