package dev.eagre.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.PriorityQueue;
import java.util.function.LongUnaryOperator;
import org.junit.jupiter.api.Test;

/** Simulated pipelines with a backlog: their time is a number, so that the results are the same on each machine. */
class InFlightWindowTest {
    private static final long MS = 1_000_000;
    private static final long SECOND = 1_000 * MS;

    /** Workers side by side behind one queue; each takes up to a number of the rows that wait, in one call. */
    private static final class Pipeline {
        private final int workers;
        private final int most;
        private LongUnaryOperator callNanos;
        private final PriorityQueue<long[]> calls = new PriorityQueue<>((a, b) -> Long.compare(a[0], b[0]));
        private final InFlightWindow window = new InFlightWindow(() -> this.inFlight, () -> this.sent, () -> this.now);
        private long now;
        private long waiting;
        private long inFlight;
        private long sent;
        private long processed;
        private int rowsOfARecord = 1;

        Pipeline(int workers, int most, LongUnaryOperator callNanos) {
            this.workers = workers;
            this.most = most;
            this.callNanos = callNanos;
        }

        /** Runs for a time; returns the longest time that the rows in flight needed in the second half of it. */
        long run(long nanos) {
            long began = now;
            long longest = 0;
            while (now < began + nanos) {
                for (int credit; (credit = window.admit(1)) > 0; ) {
                    long rows = (long) credit * rowsOfARecord;
                    inFlight += rows;
                    sent += rows;
                    waiting += rows;
                    begin();
                }
                if (now > began + nanos / 2) longest = Math.max(longest, drainNanos());
                end();
                begin();
            }
            return longest;
        }

        private void begin() {
            while (calls.size() < workers && waiting > 0) {
                long count = Math.min(most, waiting);
                waiting -= count;
                calls.add(new long[] {now + callNanos.applyAsLong(count), count});
            }
        }

        private void end() {
            long[] call = calls.remove();
            now = call[0];
            inFlight -= call[1];
            processed += call[1];
        }

        /** A commit pauses the sources until no row is in flight; returns how long that took. */
        long pause() {
            long began = now;
            window.disturb();
            while (inFlight > 0) {
                end();
                begin();
            }
            window.idle();
            return now - began;
        }

        /** How long the rows in flight still need: the end of the calls under way, and the calls after them. */
        private long drainNanos() {
            long underWay = calls.stream().mapToLong(call -> call[0] - now).max().orElse(0);
            long more = (waiting + (long) workers * most - 1) / ((long) workers * most);
            return underWay + more * callNanos.applyAsLong(Math.min(most, Math.max(waiting, 1)));
        }
    }

    private static Pipeline rowByRow(int workers, long rowNanos) {
        return new Pipeline(workers, 1, count -> count * rowNanos);
    }

    /** Half a second; twice as long while a larger window is tried. */
    @Test
    void theRowsInFlightAreBoundedByTheirTime() {
        for (long rowMs : new long[] {1, 10, 100}) {
            long needed = rowByRow(1, rowMs * MS).run(120 * SECOND);
            assertTrue(needed <= 1_200 * MS, needed / MS + " ms in flight where a row takes " + rowMs + " ms");
        }
    }

    @Test
    void noTimeIsLostWhereARowTakesLong() {
        for (long rowMs : new long[] {1, 10, 100, 1_000}) {
            Pipeline pipeline = rowByRow(1, rowMs * MS);
            pipeline.run(200 * SECOND);
            assertTrue(pipeline.processed >= 0.98 * 200_000 / rowMs, pipeline.processed + " rows of " + rowMs + " ms");
        }
    }

    /** The first rows are let in before anything is known of their time. */
    @Test
    void fewRowsAreLetInAtFirst() {
        Pipeline pipeline = rowByRow(1, 100 * MS);
        for (int credit; (credit = pipeline.window.admit(1)) > 0; ) pipeline.inFlight += credit;
        assertEquals(16, pipeline.inFlight);
    }

    /** A queue that takes rows quickly, because the one after it is empty, says nothing of the pipeline's time. */
    @Test
    void theWindowDoesNotGrowBeforeItIsFull() {
        Pipeline pipeline = rowByRow(1, 10 * MS);
        for (int row = 0; row < 10_000; row++) {
            assertTrue(pipeline.window.admit(1) > 0);
            pipeline.inFlight++;
            pipeline.inFlight--;
        }
        for (int credit; (credit = pipeline.window.admit(1)) > 0; ) pipeline.inFlight += credit;
        assertEquals(16, pipeline.inFlight);
    }

    @Test
    void quickRowsFillAWindowOfAThousand() {
        Pipeline pipeline = rowByRow(1, 2_000);
        pipeline.run(SECOND / 2);
        pipeline.inFlight = 0;
        for (int credit; (credit = pipeline.window.admit(1)) > 0; ) pipeline.inFlight += credit;
        assertEquals(1_024, pipeline.inFlight);
    }

    @Test
    void workersSideBySideAreAllKeptBusy() {
        Pipeline pipeline = rowByRow(8, SECOND);
        long needed = pipeline.run(400 * SECOND);
        assertTrue(pipeline.processed >= 0.9 * 8 * 400, pipeline.processed + " of " + 8 * 400);
        assertTrue(needed <= 5 * SECOND, needed / MS + " ms in flight");
    }

    /** A model that scores any number of rows in the same time needs many rows in each call. */
    @Test
    void aFunctionOfManyRowsGetsMany() {
        for (long callMs : new long[] {20, 300, 700}) {
            Pipeline pipeline = new Pipeline(1, 512, count -> callMs * MS);
            pipeline.run(120 * SECOND);
            double calls = 120_000.0 / callMs;
            assertTrue(pipeline.processed / calls >= 200, pipeline.processed / calls + " rows in a call of " + callMs);
        }
    }

    @Test
    void theWindowFollowsTheSpeed() {
        Pipeline pipeline = rowByRow(1, 10_000);
        pipeline.run(10 * SECOND);
        pipeline.callNanos = count -> count * 20 * MS;
        assertTrue(pipeline.run(120 * SECOND) <= 1_200 * MS, "slower");
        pipeline.callNanos = count -> count * 10_000;
        long before = pipeline.processed;
        pipeline.run(10 * SECOND);
        assertTrue(pipeline.processed - before >= 900_000, "faster again");
    }

    /** The drain of a pause is measured, also if no other drain ends between two commits. */
    @Test
    void pausesAreMeasured() {
        Pipeline pipeline = rowByRow(1, 2 * SECOND);
        long longest = 0;
        for (int commit = 0; commit < 20; commit++) {
            pipeline.run(10 * SECOND);
            long took = pipeline.pause();
            if (commit > 3) longest = Math.max(longest, took);
        }
        assertTrue(longest <= 10 * SECOND, longest / MS + " ms of pause");
    }

    /** A commit that gives up leaves the sources paused for a time that says nothing. */
    @Test
    void aPauseThatGivesUpIsNotMeasured() {
        Pipeline pipeline = rowByRow(1, 10_000);
        pipeline.run(SECOND);
        for (int credit; (credit = pipeline.window.admit(1)) > 0; ) pipeline.inFlight += credit;
        pipeline.window.disturb();
        pipeline.inFlight = 0;
        pipeline.now += 100 * SECOND;
        for (int credit; (credit = pipeline.window.admit(1)) > 0; ) pipeline.inFlight += credit;
        assertEquals(1_024, pipeline.inFlight);
    }

    /** The first call starts a worker or loads a model. */
    @Test
    void aSlowFirstCallIsForgotten() {
        for (int workers : new int[] {1, 8}) {
            for (int most : new int[] {1, 512}) {
                Pipeline pipeline = new Pipeline(workers, most, count -> 12 * SECOND);
                pipeline.run(12 * SECOND);
                pipeline.callNanos = count -> 300 * MS;
                pipeline.run(60 * SECOND);
                long before = pipeline.processed;
                pipeline.run(60 * SECOND);
                double possible = 60_000 / 300.0 * workers * Math.min(most, 200.0 / workers);
                assertTrue(pipeline.processed - before >= 0.8 * possible,
                        pipeline.processed - before + " of " + possible + " rows, " + workers + " workers");
            }
        }
    }

    @Test
    void recordsWithManyRowsAreLetInOneByOne() {
        Pipeline pipeline = rowByRow(1, 10 * MS);
        pipeline.rowsOfARecord = 100;
        long needed = pipeline.run(120 * SECOND);
        assertTrue(needed <= 3 * SECOND, needed / MS + " ms in flight where a record takes 1 s");
    }

    @Test
    void sourcesShareTheWindow() {
        long[] inFlight = {0};
        InFlightWindow window = new InFlightWindow(() -> inFlight[0], () -> 0, () -> 0);
        assertEquals(8, window.admit(1));
        assertEquals(2, window.admit(4));
        inFlight[0] = 15;
        assertEquals(1, window.admit(4));
        inFlight[0] = 16;
        assertEquals(0, window.admit(4));
    }
}
