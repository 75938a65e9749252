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
        return join(2, 10, 5, left, right, "");
    }

    private static Keyed join(long before, long after, long grace, boolean outer) {
        return join(before, after, grace, outer, outer, "");
    }

    private static Keyed join(long before, long after, long grace, boolean left, boolean right, String more) {
        return join(before, after, grace, left, right, more, "k");
    }

    private static Keyed join(
            long before, long after, long grace, boolean left, boolean right, String more, String key) {
        return new Keyed(IntervalJoin::new, "'side':" + Keyed.FIRST_ARGUMENT + ",'before':" + before * SECOND
                + ",'after':" + after * SECOND + ",'grace':" + grace * SECOND + ",'left':" + left + ",'right':" + right
                + more, key);
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

    /** Flink's case of two positive bounds: the right row is 5 to 10 s after the left one. */
    @Test
    void bothBoundsCanBeAfterTheLeftRow() {
        Keyed later = join(-5, 10, 20, false);
        later.put(at(0, "l", LEFT));
        assertEquals(List.of("l r 1", "l s 1"),
                later.put(at(4.9, "q", RIGHT), at(5, "r", RIGHT), at(10, "s", RIGHT), at(10.1, "t", RIGHT)));
        assertEquals(List.of("m s 0", "m t 0"), later.put(at(4, "m", LEFT)), "the right row may arrive first");
    }

    /** Flink's case of two negative bounds: the right row is 5 to 10 s before the left one. */
    @Test
    void bothBoundsCanBeBeforeTheLeftRow() {
        Keyed earlier = join(10, -5, 20, false);
        earlier.put(at(20, "l", LEFT));
        assertEquals(List.of("l r 1", "l s 1"),
                earlier.put(at(15.1, "q", RIGHT), at(15, "r", RIGHT), at(10, "s", RIGHT), at(9.9, "t", RIGHT)));
    }

    @Test
    void withBoundsOfOneSignRowsAreEmittedAloneAndExpire() {
        Keyed later = join(-5, 10, 0, true);
        assertEquals(List.of("null r 1"), later.put(at(100, "r", RIGHT)), "a left row would have to be 5 s older");
        assertEquals(List.of(), later.put(at(100, "l", LEFT)));
        assertEquals(List.of(), later.pass(10.9));
        assertEquals(List.of("l null 0"), later.pass(0.2));
        later.pass(20);
        assertTrue(later.isExpired());
    }

    /** The partner of a right row is older by its event time, but it may arrive later. */
    @Test
    void aRowWhosePartnerIsOlderWaitsForTheGrace() {
        Keyed later = join(-5, 10, 20, true);
        later.put(at(100, "r", RIGHT));
        assertEquals(List.of(), later.pass(19.9));
        assertEquals(List.of("null r 1"), later.pass(0.2));
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
    void withoutAGraceRowsInOrderAreNotLate() {
        Keyed strict = join(2, 10, 0, true);
        strict.put(at(0, "l", LEFT));
        assertEquals(List.of(), strict.pass(10.5), "its match may be in flight");
        assertEquals(List.of("l r 1"), strict.put(at(9.9, "r", RIGHT)));
    }

    @Test
    void aMatchedRowIsNeverEmittedAlone() {
        Keyed outer = join(true, true);
        outer.put(at(0, "l", LEFT), at(1, "r", RIGHT));
        assertEquals(List.of(), outer.pass(100));
        assertTrue(outer.isExpired());
    }

    @Test
    void aKeyHoldsALimitedNumberOfBytes() {
        Keyed limited = join(2, 10, 5, true, false, ",'max_bytes':5");
        limited.put(at(0, "l1", LEFT), at(1, "l2", LEFT));
        int bytes = limited.stateBytes();
        assertEquals(List.of(), limited.put(at(2, "l3", LEFT), at(2, "r1", RIGHT)), "both are rejected");
        assertEquals(bytes, limited.stateBytes());
        assertEquals(List.of("l1 null 0", "l2 r2 1"), limited.put(at(15.1, "x", LEFT), at(10.5, "r2", RIGHT)).stream()
                .filter(result -> !result.startsWith("x")).toList(), "rows that are past make room");
    }

    @Test
    void stateSurvivesARestart() {
        inner.put(at(0, "l", LEFT));
        inner.restart();
        assertEquals(List.of("l r 1"), inner.put(at(3, "r", RIGHT)));
    }

    /** As in SQL, null equals nothing: no partner can come, however late the row is. */
    @Test
    void aKeyOfNullMatchesNothing() {
        Keyed left = join(2, 10, 5, true, false, "", null);
        assertEquals(List.of("null l null 0", "null m null 0"),
                left.put(at(100, "l", LEFT), at(100, "r", RIGHT), at(0, "m", LEFT)));
        assertTrue(left.isExpired());
    }

    @Test
    void duplicatesJoinEachPartnerOnce() {
        inner.put(at(0, "l", LEFT), at(0, "l", LEFT));
        assertEquals(List.of("l r 1", "l r 1"), inner.put(at(0, "r", RIGHT)));
        assertEquals(List.of("l r 1", "l r 1"), inner.put(at(0, "r", RIGHT)));
    }

    @Test
    void anIntervalCanBeOneMoment() {
        Keyed exact = join(-5, 5, 20, true);
        exact.put(at(-10, "l", LEFT));
        assertEquals(List.of("l r 1"), exact.put(at(-5.000001, "q", RIGHT), at(-5, "r", RIGHT), at(-4.999999, "s", RIGHT)));
    }
}
