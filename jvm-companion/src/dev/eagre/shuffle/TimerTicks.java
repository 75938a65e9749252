package dev.eagre.shuffle;

import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** The rows of a queue, with an empty row every few milliseconds while none arrives; like {@link Prefetch}, without a thread. */
final class TimerTicks extends AbstractIterator<Object> {
    private final RowQueue queue;
    private final Iterator<Object> rows;
    private final InternalRow tick;
    private final long tickMs;
    private Object next;

    /** Creates the iterator; {@code rows} reads lazily from {@code queue}. */
    TimerTicks(RowQueue queue, Iterator<Object> rows, InternalRow tick, long tickMs) {
        this.queue = queue;
        this.rows = rows;
        this.tick = tick;
        this.tickMs = tickMs;
    }

    @Override
    public boolean hasNext() {
        while (next == null) {
            if (queue.awaitNext(tickMs)) {
                if (!rows.hasNext()) return false;
                next = rows.next();
            } else if (queue.mayFireTimers()) {
                next = tick;
            }
        }
        return true;
    }

    @Override
    public Object next() {
        Object row = next;
        next = null;
        return row;
    }
}
