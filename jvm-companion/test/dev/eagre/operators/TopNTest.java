package dev.eagre.operators;

import static dev.eagre.operators.Keyed.SECOND;
import static dev.eagre.operators.Keyed.at;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** The two best items of windows of 10 s; results are start, rank, item, score and row. */
class TopNTest {
    private static Keyed top(int n, String kind, long grace) {
        return top(n, kind, grace, 0);
    }

    private static Keyed top(int n, String kind, long grace, long retentionMs) {
        return new Keyed(TopN::new, "'item':" + Keyed.FIRST_ARGUMENT + ",'n':" + n + ",'window':" + 10 * SECOND
                + ",'grace':" + grace * SECOND + ",'keeps_ms':60000,'retention_ms':" + retentionMs + ",'score':[{'kind':'" + kind + "','column':"
                + (Keyed.FIRST_ARGUMENT + 1) + ",'whole':true}]");
    }

    private final Keyed sums = top(2, "sum", 0);
    private final Keyed best = top(2, "max", 0);

    @Test
    void onlyChangedRanksAreEmitted() {
        assertEquals(List.of("0 1 ann 5 r"), sums.put(at(1, "r", "ann", 5L)));
        assertEquals(List.of("0 2 bob 3 r"), sums.put(at(1, "r", "bob", 3L)));
        assertEquals(List.of("0 1 bob 7 r", "0 2 ann 5 r"), sums.put(at(1, "r", "bob", 4L)));
        assertEquals(List.of(), sums.put(at(1, "r", "cyd", 1L)), "only two ranks are emitted");
        assertEquals(List.of("0 1 cyd 9 r", "0 2 bob 7 r"), sums.put(at(1, "r", "cyd", 8L)));
    }

    @Test
    void equalScoresAreRankedByName() {
        sums.put(at(1, "r", "bob", 5L));
        assertEquals(List.of("0 1 ann 5 r", "0 2 bob 5 r"), sums.put(at(1, "r", "ann", 5L)));
        assertEquals(List.of(), sums.put(at(1, "r", "cyd", 5L)));
    }

    @Test
    void anItemThatLosesPointsIsReplacedByTheNextBest() {
        sums.put(at(1, "r", "ann", 9L), at(1, "r", "bob", 8L), at(1, "r", "cyd", 7L));
        assertEquals(List.of("0 1 bob 8 r", "0 2 cyd 7 r"), sums.put(at(1, "r", "ann", -5L)));
    }

    @Test
    void maxUsesTheHighestScore() {
        best.put(at(1, "r", "ann", 5L), at(1, "r", "bob", 3L));
        assertEquals(List.of(), best.put(at(1, "r", "ann", 2L)));
        assertEquals(List.of("0 1 bob 6 r", "0 2 ann 5 r"), best.put(at(1, "r", "bob", 6L)));
    }

    @Test
    void minUsesTheLowestScore() {
        Keyed least = top(2, "min", 0);
        least.put(at(1, "r", "ann", 5L), at(1, "r", "bob", 3L));
        assertEquals(List.of("0 1 ann 2 r", "0 2 bob 3 r"), least.put(at(1, "r", "ann", 2L)));
    }

    @Test
    void nullScoresAreIgnored() {
        assertEquals(List.of(), sums.put(at(1, "r", "ann", null)));
        assertEquals(List.of("0 1 ann 2 r"), sums.put(at(1, "r", "ann", 2L)));
    }

    /** As in Flink, whose Top-N ranks rows with a null like any other. */
    @Test
    void nullIsAnItem() {
        for (Keyed board : List.of(sums, best)) {
            assertEquals(List.of("0 1 null 5 r"), board.put(at(1, "r", null, 5L)));
            assertEquals(List.of("0 2  5 r"), board.put(at(1, "r", "", 5L)), "an empty name is another item");
            assertEquals(List.of("0 1 null 6 r"), board.put(at(1, "r", null, board == sums ? 1L : 6L)));
            board.restart();
            assertEquals(List.of("0 1 bob 9 r", "0 2 null 6 r"), board.put(at(1, "r", "bob", 9L)));
        }
        assertEquals(List.of("0 1  5 r", "0 2 null 0 r"), top3());
    }

    /** Bob and null lose their points, so that the board is ranked again from all scores. */
    private List<String> top3() {
        sums.put(at(1, "r", "bob", -20L));
        return sums.put(at(1, "r", null, -6L));
    }

    /** A board with ann and 5 points, as layout 1 stored it. */
    @Test
    void boardsOfTheFirstLayoutAreRead() {
        best.put(at(1, "r", "bob", 3L));
        best.store("op", StateLayout.write(out -> {
            for (long header : new long[] {SECOND, best.now(), 0}) out.writeLong(header);
            out.writeInt(1);
            out.writeLong(0);
            out.writeInt(1);
            out.writeUTF("ann");
            out.writeLong(1);
            out.writeLong(5);
        }));
        assertEquals(List.of("0 2 bob 4 r"), best.put(at(1, "r", "bob", 4L)));
    }

    @Test
    void eachWindowHasItsOwnBoard() {
        Keyed graceful = top(2, "sum", 10);
        graceful.put(at(5, "r", "ann", 5L));
        assertEquals(List.of("10000000 1 bob 1 r"), graceful.put(at(10, "r", "bob", 1L)));
        assertEquals(List.of("0 2 bob 1 r"), graceful.put(at(9.9, "r", "bob", 1L)));
    }

    @Test
    void windowsBeforeTheUnixEpochAreSupported() {
        assertEquals(List.of("-10000000 1 ann 5 r"), sums.put(at(-0.5, "r", "ann", 5L)));
        assertEquals(List.of("0 1 ann 5 r"), sums.put(at(0, "r", "ann", 5L)));
    }

    @Test
    void aClosedWindowAcceptsNoRowsAndHasNoState() {
        sums.put(at(1, "r", "ann", 5L), at(2, "r", "bob", 5L));
        assertEquals(2, sums.entries("scores"));
        sums.put(at(10, "r", "ann", 1L));
        assertEquals(1, sums.entries("scores"), "the scores of the closed window are removed");
        assertEquals(List.of(), sums.put(at(9.9, "r", "ann", 100L)));
    }

    @Test
    void maxScoresAreStoredOnlyForTheBoard() {
        for (int i = 0; i < 100; i++) best.put(at(1, "r", "item" + i, (long) i));
        assertEquals(0, best.entries("scores"));
        int bytes = best.stateBytes();
        for (int i = 0; i < 100; i++) best.put(at(1, "r", "item" + i, (long) i));
        assertEquals(bytes, best.stateBytes());
    }

    @Test
    void stateSurvivesARestart() {
        sums.put(at(1, "r", "ann", 9L), at(1, "r", "bob", 8L), at(1, "r", "cyd", 7L));
        sums.restart();
        assertEquals(List.of("0 1 bob 8 r", "0 2 cyd 7 r"), sums.put(at(1, "r", "ann", -5L)));
    }

    @Test
    void theStateOfAnIdleGroupExpires() {
        sums.put(at(1, "r", "ann", 9L));
        sums.pass(59);
        assertFalse(sums.isExpired());
        sums.pass(2);
        assertTrue(sums.isExpired());
    }

    @Test
    void theBoardOfAnIdleGroupDoesNotStartAgain() {
        for (String kind : List.of("sum", "max")) {
            Keyed board = top(2, kind, 5, 3_600_000);
            board.put(at(1, "r", "ann", 9L));
            board.pass(100);
            assertEquals(0, board.entries("scores"), "scores are kept only while the window is open");
            assertEquals(List.of(), board.put(at(2, "late", "bob", 1L)), "rank one belongs to ann");
            assertEquals(List.of("10000000 1 bob 1 r"), board.put(at(10, "r", "bob", 1L)));
            board.pass(7_200);
            assertTrue(board.isExpired());
        }
    }

    /** The emitted board equals the ranking of all sums, whatever the order of rows. */
    @Test
    void theBoardEqualsTheRankingOfAllSums() {
        long seed = 11;
        Random random = new Random(seed);
        Keyed board = top(3, "sum", 0);
        Map<String, Long> sums = new TreeMap<>();
        Map<String, String> seen = new TreeMap<>();
        for (int i = 0; i < 500; i++) {
            String item = "item" + random.nextInt(8);
            long points = random.nextInt(21) - 10;
            sums.merge(item, points, Long::sum);
            for (String result : board.put(at(1, "r", item, points))) {
                String[] words = result.split(" ");
                seen.put(words[1], words[2] + " " + words[3]);
            }
            List<Map.Entry<String, Long>> ranked = new ArrayList<>(sums.entrySet());
            ranked.sort(Map.Entry.<String, Long>comparingByValue(Comparator.reverseOrder())
                    .thenComparing(Map.Entry.comparingByKey()));
            List<String> expected = ranked.stream().limit(3).map(e -> e.getKey() + " " + e.getValue()).toList();
            assertEquals(expected, List.copyOf(seen.values()), "seed " + seed + ", row " + i);
        }
    }

    /** As in SQL, zero and minus zero are the same score. */
    @Test
    void minusZeroIsZero() {
        Keyed reals = new Keyed(TopN::new, "'item':" + Keyed.FIRST_ARGUMENT + ",'n':2,'window':" + 10 * SECOND
                + ",'grace':0,'keeps_ms':60000,'score':[{'kind':'max','column':" + (Keyed.FIRST_ARGUMENT + 1)
                + ",'whole':false}]");
        assertEquals(List.of("0 1 ann 0.0 r"), reals.put(at(1, "r", "ann", -0.0)));
        assertEquals(List.of("0 2 bob 0.0 r"), reals.put(at(1, "r", "bob", 0.0), at(1, "r", "ann", 0.0)));
        assertEquals(List.of("0 1 bob NaN r", "0 2 ann 0.0 r"), reals.put(at(1, "r", "bob", Double.NaN)));
    }

    @Test
    void aBoardCanHaveOneRank() {
        Keyed first = top(1, "sum", 0);
        first.put(at(1, "r", "ann", 5L));
        assertEquals(List.of(), first.put(at(1, "r", "bob", 5L)), "ties rank by name");
        assertEquals(List.of("0 1 bob 6 r"), first.put(at(1, "r", "bob", 1L)));
        first.restart();
        assertEquals(List.of("0 1 ann 5 r"), first.put(at(1, "r", "bob", -9L)), "the next best takes its place");
        assertEquals(List.of("0 1 ann 0 r"), first.put(at(1, "r", "ann", -5L)), "the same item with another score");
    }

    @Test
    void veryLongNamesAreSupported() {
        String name = "x".repeat(70_000);
        assertEquals(List.of("0 1 " + name + " 5 r"), sums.put(at(1, "r", name, 5L)));
    }
}
