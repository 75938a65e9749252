package dev.eagre.operators;

import static dev.eagre.operators.Keyed.SECOND;
import static dev.eagre.operators.Keyed.at;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** The right side may be 2 s before the left or 10 s after it; results are left, right, and whose row arrived last. */
class IntervalJoinTest {
    private static final int LEFT = 0;
    private static final int RIGHT = 1;

    private static Keyed join(boolean left, boolean right) {
        return new Keyed(IntervalJoin::new, "'side':" + Keyed.FIRST_ARGUMENT + ",'before':" + 2 * SECOND + ",'after':"
                + 10 * SECOND + ",'grace':" + 5 * SECOND + ",'left':" + left + ",'right':" + right);
    }

    private final Keyed inner = join(false, false);

    @Test
    void rowsJoinAsSoonAsTheSecondArrives() {
        assertEquals(List.of(), inner.put(at(0, "l", LEFT)));
        assertEquals(List.of("l r 1"), inner.put(at(3, "r", RIGHT)));
        assertEquals(List.of("l2 r 0"), inner.put(at(1, "l2", LEFT)), "a row joins all rows in the interval");
    }

    @Test
    void bothBoundsAreInclusive() {
        inner.put(at(0, "l", LEFT));
        assertEquals(List.of("l r 1", "l s 1"), inner.put(at(-2, "r", RIGHT), at(10, "s", RIGHT)));
        assertEquals(List.of(), inner.put(at(10.000001, "t", RIGHT)));
    }

    @Test
    void aRowWithoutAMatchIsEmittedAloneByEventTime() {
        Keyed outer = join(true, true);
        outer.put(at(0, "l", LEFT));
        assertEquals(List.of(), outer.put(at(15, "m", LEFT)));
        assertEquals(List.of("l null 0"), outer.put(at(15.1, "n", LEFT)), "10 s and the grace are past");
    }

    @Test
    void aRowWithoutAMatchIsEmittedAloneByTheWallClock() {
        Keyed outer = join(true, true);
        outer.put(at(0, "l", LEFT), at(100, "r", RIGHT));
        assertEquals(List.of(), outer.pass(6.9));
        assertEquals(List.of("null r 1"), outer.pass(20));
    }

    @Test
    void aMatchedRowIsNeverEmittedAlone() {
        Keyed outer = join(true, true);
        outer.put(at(0, "l", LEFT), at(1, "r", RIGHT));
        assertEquals(List.of(), outer.pass(100));
        assertTrue(outer.isExpired());
    }

    @Test
    void stateSurvivesARestart() {
        inner.put(at(0, "l", LEFT));
        inner.restart();
        assertEquals(List.of("l r 1"), inner.put(at(3, "r", RIGHT)));
    }
}
