package dev.eagre.shuffle;

import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** The rows of a lane, and while none comes an empty one every few milliseconds: as {@link Prefetch}, without a second thread. */
final class TimerTicks extends AbstractIterator<Object> {
    private final RowQueue lane;
    private final Iterator<Object> rows;
    private final InternalRow tick;
    private final long tickMs;
    private Object next;

    /** The rows are those of the lane, each made from one when it is asked for. */
    TimerTicks(RowQueue lane, Iterator<Object> rows, InternalRow tick, long tickMs) {
        this.lane = lane;
        this.rows = rows;
        this.tick = tick;
        this.tickMs = tickMs;
    }

    @Override
    public boolean hasNext() {
        if (next != null) return true;
        if (!lane.comes(tickMs)) next = tick;
        else if (rows.hasNext()) next = rows.next();
        return next != null;
    }

    @Override
    public Object next() {
        Object row = next;
        next = null;
        return row;
    }
}
