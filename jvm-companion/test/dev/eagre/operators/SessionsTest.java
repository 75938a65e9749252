package dev.eagre.operators;

import static dev.eagre.operators.Keyed.SECOND;
import static dev.eagre.operators.Keyed.at;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** Sessions with a gap of 10 s; results are start, end, count, status and row. */
class SessionsTest {
    private static Keyed sessions(long grace, boolean updates) {
        return sessions(grace, updates, 0);
    }

    private static Keyed sessions(long grace, boolean updates, long retentionMs) {
        return new Keyed(Sessions::new, "'gap':" + 10 * SECOND + ",'grace':" + grace * SECOND + ",'updates':" + updates
                + ",'retention_ms':" + retentionMs + ",'aggregates':[{'kind':'count','column':0,'whole':true}]");
    }

    private static String session(long start, long end, Object count, String status, String row) {
        return start * SECOND + " " + end * SECOND + " " + count + " " + status + " " + row;
    }

    private final Keyed sessions = sessions(30, true);

    @Test
    void rowsWithinTheGapAreOneSession() {
        assertEquals(List.of(session(0, 10, 1, "open", "a"), session(0, 20, 2, "open", "b")),
                sessions.put(at(0, "a"), at(10, "b")), "a row exactly at the gap belongs to the session");
    }

    @Test
    void rowsFurtherApartAreTwoSessions() {
        assertEquals(List.of("0 10000000 1 open a", "10000001 20000001 1 open b"),
                sessions.put(at(0, "a"), at(10.000001, "b")));
    }

    @Test
    void anOlderRowMovesTheStartAndRetractsTheOldSession() {
        sessions.put(at(10, "a"));
        assertEquals(List.of(session(10, 20, "null", "merged", "b"), session(5, 20, 2, "open", "b")),
                sessions.put(at(5, "b")));
    }

    @Test
    void aRowBetweenTwoSessionsMergesThem() {
        sessions.put(at(0, "a"), at(16, "b"));
        assertEquals(List.of(session(16, 26, "null", "merged", "c"), session(0, 26, 3, "open", "c")),
                sessions.put(at(8, "c")));
    }

    @Test
    void sessionsBeforeTheUnixEpochAreSupported() {
        assertEquals(List.of(session(-5, 5, 1, "open", "a"), session(-5, 13, 2, "open", "b")),
                sessions.put(at(-5, "a"), at(3, "b")));
    }

    @Test
    void aSessionIsFinalAfterItsEndAndTheGrace() {
        sessions.put(at(0, "a"));
        assertEquals(List.of(session(40, 50, 1, "open", "b")), sessions.put(at(40, "b")));
        assertEquals(List.of("40000000 50000001 2 open c", session(0, 10, 1, "final", "a")),
                sessions.put(at(40.000001, "c")));
    }

    @Test
    void onlyFinalSessionsAreEmittedWithoutUpdates() {
        Keyed quiet = sessions(0, false);
        assertEquals(List.of(), quiet.put(at(0, "a"), at(5, "b")));
        assertEquals(List.of(session(0, 15, 2, "final", "b")), quiet.put(at(30, "c")));
    }

    @Test
    void severalSessionsEndInTheOrderOfTheirStarts() {
        Keyed quiet = sessions(100, false);
        quiet.put(at(60, "b"), at(30, "a"), at(90, "c"));
        assertEquals(
                List.of(session(30, 40, 1, "final", "a"), session(60, 70, 1, "final", "b"),
                        session(90, 100, 1, "final", "c")),
                quiet.put(at(1000, "d")));
    }

    @Test
    void aRowThatCanOnlyBelongToAFinalSessionIsLate() {
        sessions.put(at(0, "a"), at(100, "b"));
        assertEquals(List.of(), sessions.put(at(59.9, "late")));
        assertEquals(List.of(session(60, 70, 1, "open", "c")), sessions.put(at(60, "c")));
    }

    @Test
    void theWallClockEndsAnIdleSession() {
        sessions.put(at(0, "a"));
        assertEquals(List.of(), sessions.pass(39.9));
        assertEquals(List.of(session(0, 10, 1, "final", "a")), sessions.pass(0.2));
        assertEquals(List.of(), sessions.put(at(10, "late")), "the row belongs to a final session");
        assertEquals(List.of("11000000 21000000 1 open b"), sessions.put(at(11, "b")));
    }

    @Test
    void theWallClockEndsSessionsInTheirOrder() {
        Keyed quiet = sessions(100, false);
        quiet.put(at(60, "b"));
        quiet.pass(3);
        quiet.put(at(0, "a"));
        assertEquals(List.of(), quiet.pass(108), "the older session is open for two more seconds");
        quiet.put(at(9, "c"));
        assertEquals(List.of(session(0, 19, 2, "final", "c"), session(60, 70, 1, "final", "b")), quiet.pass(200));
    }

    @Test
    void aRowAtTheEndOfBothSessionsMergesThem() {
        sessions.put(at(0, "a"), at(20, "b"));
        assertEquals(List.of(session(20, 30, "null", "merged", "c"), session(0, 30, 3, "open", "c")),
                sessions.put(at(10, "c")), "the gap to both is exactly 10 s");
    }

    @Test
    void rowsOfOneTimeAreOneSession() {
        Keyed quiet = sessions(0, false);
        quiet.put(at(5, "a"), at(5, "b"), at(5, "c"));
        assertEquals(List.of(session(5, 15, 3, "final", "c")), quiet.pass(12));
    }

    @Test
    void withoutAGraceRowsInOrderAreNotLate() {
        Keyed strict = sessions(0, false);
        strict.put(at(0, "a"));
        assertEquals(List.of(), strict.pass(10.5), "the next row may be in flight");
        strict.put(at(9, "b"));
        assertEquals(List.of(session(0, 19, 2, "final", "b")), strict.pass(11.1));
    }

    @Test
    void aFinalSessionStaysFinalForTheRetention() {
        Keyed remembered = sessions(0, true, 3_600_000);
        remembered.put(at(0, "a"), at(5, "b"));
        assertEquals(List.of(session(0, 15, 2, "final", "b")), remembered.pass(100));
        assertEquals(List.of(), remembered.put(at(5, "late")));
        assertEquals(List.of(), remembered.pass(100));
        remembered.pass(7_200);
        assertTrue(remembered.isExpired());
    }

    @Test
    void aRowExtendsItsSession() {
        sessions.put(at(0, "a"));
        sessions.pass(30);
        sessions.put(at(9, "b"));
        assertEquals(List.of(), sessions.pass(39.9));
        assertEquals(List.of(session(0, 19, 2, "final", "b")), sessions.pass(0.2));
    }

    @Test
    void stateSurvivesARestart() {
        sessions.put(at(0, "a"), at(16, "b"));
        sessions.restart();
        assertEquals(List.of(session(16, 26, "null", "merged", "c"), session(0, 26, 3, "open", "c")),
                sessions.put(at(8, "c")));
    }

    @Test
    void theStateOfAnIdleKeyExpires() {
        sessions.put(at(0, "a"));
        sessions.pass(200);
        assertTrue(sessions.isExpired());
        assertEquals(0, sessions.timers());
    }
}
