package dev.eagre.commit;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The rows on their way from task to task within this JVM, or to Python and back: counted where they leave and
 * where they arrive. Once the sources give no more, as many have arrived as have left, and every task waits for the
 * next, then no row is in work anywhere, and the state is that after a known row of each source.
 */
public final class Barrier {
    private static final long LOOK_AGAIN_NANOS = 200_000;

    private static final Set<Count> LEFT = ConcurrentHashMap.newKeySet();
    private static final Set<Arrivals> ARRIVED = ConcurrentHashMap.newKeySet();
    private static final Set<Stop> STOPS = ConcurrentHashMap.newKeySet();
    private static final Set<Runnable> HELD_BACK = ConcurrentHashMap.newKeySet();

    private Barrier() {}

    /** Rows that one thread has counted. */
    public static class Count {
        volatile long rows;

        /** One more. */
        public final void one() {
            rows = rows + 1;
        }
    }

    /** The rows that a task has taken; it waits for the next, or has one in work. */
    public static final class Arrivals extends Count {
        private volatile boolean waits;

        /** From now on; the row that was taken before is done by then. */
        public void waits(boolean now) {
            waits = now;
        }
    }

    /** Where a task does things by itself while no row comes; a halt is to be put behind its rows. */
    public interface Stop {
        void halt(Halt halt) throws InterruptedException;
    }

    /** Where a task stands while its state is written. */
    public static final class Halt {
        private final CountDownLatch reached = new CountDownLatch(1);
        private final CountDownLatch over = new CountDownLatch(1);

        /** The task is there; goes on when the state is written. */
        public void pass() throws InterruptedException {
            reached.countDown();
            over.await();
        }
    }

    /** Counts the rows that a task sends on its way to others, or to another process. */
    public static Count leaving(TaskContext task) {
        return during(task, LEFT, new Count());
    }

    /** Counts those that a task takes from there; one that ends on the way has arrived as well. */
    public static Arrivals arriving(TaskContext task) {
        return during(task, ARRIVED, new Arrivals());
    }

    /** While a task runs, it is to be halted before its state is written. */
    public static void stops(TaskContext task, Stop stop) {
        during(task, STOPS, stop);
    }

    /** While a task runs, this writes what it holds back into its state. */
    public static void holdsBack(TaskContext task, Runnable writes) {
        during(task, HELD_BACK, writes);
    }

    private static <T> T during(TaskContext task, Set<T> known, T one) {
        known.add(one);
        task.addTaskCompletionListener((TaskCompletionListener) context -> known.remove(one));
        return one;
    }

    /** What is done while no row moves. */
    public interface Work<T> {
        T run() throws Exception;
    }

    /**
     * Lets the rows in work be done, halts the tasks, does the work, and lets them go on. The sources must give no
     * more by then.
     *
     * @return what the work gives; null if the rows were not done before the deadline
     */
    public static <T> T whileIdle(long deadline, Work<T> work) throws Exception {
        if (awaited(deadline, () -> still() ? Boolean.TRUE : null) == null) return null;
        List<Halt> halts = new ArrayList<>();
        try {
            for (Stop stop : STOPS) {
                Halt halt = new Halt();
                halts.add(halt);
                stop.halt(halt);
            }
            for (Halt halt : halts) {
                long left = deadline - System.nanoTime();
                if (!halt.reached.await(Math.max(left, 0), TimeUnit.NANOSECONDS)) return null;
            }
            // What was due while the last rows were done may have sent others on.
            if (!still()) return null;
            HELD_BACK.forEach(Runnable::run);
            return work.run();
        } finally {
            halts.forEach(halt -> halt.over.countDown());
        }
    }

    /** Looks again and again until there is something; null if there is nothing by the deadline. */
    public static <T> T awaited(long deadline, Supplier<T> sought) {
        T found = sought.get();
        while (found == null && System.nanoTime() < deadline) {
            LockSupport.parkNanos(LOOK_AGAIN_NANOS);
            found = sought.get();
        }
        return found;
    }

    /** The counts first: a task that has taken its last row and waits again has done it. */
    private static boolean still() {
        long left = LEFT.stream().mapToLong(one -> one.rows).sum();
        long arrived = ARRIVED.stream().mapToLong(one -> one.rows).sum();
        return left == arrived && ARRIVED.stream().allMatch(one -> one.waits)
                && left == LEFT.stream().mapToLong(one -> one.rows).sum();
    }
}
