package dev.eagre.commit;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;

/** The rows that the tasks of a run have sent and received in this JVM. */
public final class RowsInFlight {
    final Set<RowCount> sent = ConcurrentHashMap.newKeySet();
    final Set<ReceivedCount> received = ConcurrentHashMap.newKeySet();

    /**
     * The rows that the tasks of this JVM have sent and received, and whether all of them wait for the next row.
     *
     * @param received read first, so that a task that is idle afterwards has processed these rows
     */
    public record Counts(long received, boolean idle, long sent) {}

    Counts counts() {
        long taken = rows(received, count -> true);
        boolean idle = busy() == 0;
        return new Counts(taken, idle, sent(count -> true));
    }

    /** Compares the counts first: a task that received its last row and is idle again has processed it. */
    boolean idle() {
        long before = sent(count -> true);
        return before == received(count -> true) && busy() == 0 && before == sent(count -> true);
    }

    /** The number of tasks that process a row, or fire timers. */
    long busy() {
        return received.stream().filter(count -> !count.idle).count();
    }

    boolean noneSent() {
        return sent.isEmpty();
    }

    boolean anySent(Predicate<RowCount> counts) {
        return sent.stream().anyMatch(counts);
    }

    long sent(Predicate<RowCount> counts) {
        return rows(sent, counts);
    }

    long received(Predicate<RowCount> counts) {
        return rows(received, counts);
    }

    long inFlight(Predicate<RowCount> counts) {
        return sent(counts) - received(counts);
    }

    /** A window for some of the rows, of so many at first. */
    InFlightWindow window(int first, Predicate<RowCount> counts) {
        return new InFlightWindow(first, () -> inFlight(counts), () -> sent(counts), System::nanoTime);
    }

    private static long rows(Set<? extends RowCount> all, Predicate<RowCount> counts) {
        long rows = 0;
        for (RowCount count : all) {
            if (counts.test(count)) rows += count.rows;
        }
        return rows;
    }
}
