package dev.eagre.commit;

import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;

/**
 * Bounds the rows in flight by the time that they need, because a commit waits for them. The sources let rows in until
 * the window is full, and then wait until half of its rows have been processed. That time says how many rows are
 * processed in the target time.
 *
 * <p>The window grows after it was full and its rows were processed in time. It shrinks only if that costs no
 * throughput, and a larger one is tried now and then: the time of workers side by side, or of a function that takes
 * many rows in one call, does not follow the number of rows.
 */
final class InFlightWindow {
    static final long TARGET_NANOS = 500_000_000;
    static final int FIRST_ROWS = 16;
    private static final int MOST_ROWS_OF_A_SOURCE = 1024;
    private static final long PARK_NANOS = 200_000;

    /** A smaller window that lowers the rate by this factor costs throughput. */
    private static final double MUCH_LOWER = 0.75;

    /** A larger window is worth it if it raises the rate by this factor. */
    private static final double MUCH_HIGHER = 1.5;

    /** A larger window that is tried has at least so many rows: with two, a function of many rows still gets one. */
    private static final int LARGER_ROWS = 8;

    /** The window shrinks after so many measurements in a row: the first call of a function may take seconds. */
    private static final int LOW_MEASUREMENTS = 2;

    /** A larger window is tried after so many measurements. */
    private static final int PATIENCE = 32;

    private enum Trial { NONE, SMALLER, LARGER }

    private final LongSupplier inFlight;
    private final LongSupplier sent;
    private final LongSupplier clock;
    private int rows;

    private long sentBefore;
    private int admitted;

    private boolean draining;
    private boolean disturbed;
    private long drainBegan;
    private long drainFrom;

    private Trial trial = Trial.NONE;
    private int rowsBefore;
    private double rateBefore;
    private double best;
    private int low;
    private boolean costly;

    /** Whether the window has just shrunk: it still holds the rows of the larger one. */
    private boolean shrunk;

    private int patience = PATIENCE;

    /**
     * Creates a window.
     *
     * @param inFlight the number of rows in flight
     * @param sent the number of rows that have been sent so far
     * @param clock the time in nanoseconds
     */
    InFlightWindow(LongSupplier inFlight, LongSupplier sent, LongSupplier clock) {
        this(FIRST_ROWS, inFlight, sent, clock);
    }

    /** Creates a window that begins with so many rows. */
    InFlightWindow(int rows, LongSupplier inFlight, LongSupplier sent, LongSupplier clock) {
        this.rows = rows;
        this.inFlight = inFlight;
        this.sent = sent;
        this.clock = clock;
    }

    /**
     * How many records a source may let in before it asks again; 0 while the window is full.
     *
     * @param sources the number of sources that share the window
     */
    synchronized int admit(int sources) {
        long now = Math.max(inFlight.getAsLong(), 0);
        int most = MOST_ROWS_OF_A_SOURCE * Math.max(sources, 1);
        if (draining) {
            if (now > rows / 2) return 0;
            draining = false;
            if (!disturbed) measured(drainFrom - now, most);
        } else if (now >= rows) {
            begin(now);
            return 0;
        }
        admitted = (int) Math.max(1, (rows - now) / 2 / Math.max(sources, 1) / rowsOfARecord());
        return admitted;
    }

    /** How many rows each of the records gave that were let in last. */
    private long rowsOfARecord() {
        long before = sentBefore;
        sentBefore = sent.getAsLong();
        return admitted == 0 ? 1 : Math.max(1, (sentBefore - before) / admitted);
    }

    private void begin(long now) {
        draining = true;
        disturbed = false;
        drainFrom = now;
        drainBegan = clock.getAsLong();
    }

    /** Called when the sources pause: they will not see when half of the rows have been processed. */
    synchronized void disturb() {
        disturbed = true;
    }

    /** Called when all rows have been processed during a pause. */
    synchronized void idle() {
        if (draining) measured(drainFrom, MOST_ROWS_OF_A_SOURCE);
        draining = false;
    }

    /** Waits a moment, while the window is full. */
    static void park() throws InterruptedException {
        LockSupport.parkNanos(PARK_NANOS);
        if (Thread.interrupted()) throw new InterruptedException();
    }

    /** Resizes the window after so many of its rows were processed. */
    private void measured(long processed, int most) {
        boolean overfull = shrunk;
        shrunk = false;
        if (overfull) return;
        double rate = processed / (double) Math.max(clock.getAsLong() - drainBegan, 1);
        if (trial == Trial.SMALLER && rate < MUCH_LOWER * rateBefore) {
            rows = rowsBefore;
            costly = true;
            tryLarger(rateBefore, most);
        } else if (trial == Trial.LARGER && rate < MUCH_HIGHER * rateBefore) {
            rows = rowsBefore;
            shrunk = true;
            trial = Trial.NONE;
        } else if (trial == Trial.LARGER) {
            tryLarger(rate, most);
        } else {
            trial = Trial.NONE;
            follow(rate, most);
        }
    }

    /** Grows with the rate; shrinks with it unless that has been costly; tries a larger window now and then. */
    private void follow(double rate, int most) {
        int fitting = fitting(rate, most);
        if (fitting > rows) {
            rows = Math.min(2 * rows, fitting);
            costly = false;
            low = 0;
        } else if (--patience <= 0) {
            costly = false;
            tryLarger(rate, most);
        } else if (fitting == rows || costly) {
            low = 0;
        } else {
            best = low == 0 ? rate : Math.max(rate, best);
            if (++low >= LOW_MEASUREMENTS) trySmaller(Math.min(fitting(best, most), rows));
        }
    }

    private static int fitting(double rate, int most) {
        return (int) Math.max(Math.min(rate * TARGET_NANOS, most), 1);
    }

    private void trySmaller(int smaller) {
        begin(Trial.SMALLER, best);
        rows = smaller;
        shrunk = true;
    }

    private void tryLarger(double rate, int most) {
        begin(Trial.LARGER, rate);
        rows = Math.min(Math.max(2 * rows, Math.min(4 * rows, LARGER_ROWS)), most);
        patience = PATIENCE;
    }

    private void begin(Trial next, double rate) {
        trial = next;
        rowsBefore = rows;
        rateBefore = rate;
        low = 0;
    }
}
