package dev.eagre.spark;

import java.lang.reflect.Field;
import org.apache.spark.util.CompletionIterator;
import org.apache.spark.util.CompletionIterator$;
import scala.collection.Iterator;
import scala.collection.Iterator$;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Finds the iterator of Spark's streaming aggregate that buffers keys. The aggregate returns an iterator that commits
 * the state at the end, around one that counts the rows of the iterator that aggregates.
 */
public final class AggregateIterator {
    private AggregateIterator() {}

    /** The iterator that aggregates, inside the one that commits; its completion writes the buffered keys. */
    public static CompletionIterator<?, ?> of(Iterator<?> rows) {
        try {
            return (CompletionIterator<?, ?>) outer(PrivateMember.AGGREGATE_ITERATOR.read("iter", rows));
        } catch (ReflectiveOperationException | ClassCastException error) {
            throw new IllegalStateException("STATE_HIDDEN: the aggregate is not that of Spark 4.3", error);
        }
    }

    /** Builds such iterators, and looks for the inner one. */
    static void probe() throws ReflectiveOperationException {
        Iterator<Object> aggregating = completing(Iterator$.MODULE$.empty());
        Iterator<Object> counting = aggregating.map(new AbstractFunction1<>() {
            @Override
            public Object apply(Object row) {
                return row;
            }
        });
        if (outer(counting) != aggregating) throw new NoSuchFieldException("the source of a mapped iterator");
    }

    static Iterator<Object> completing(Iterator<Object> rows) {
        return CompletionIterator$.MODULE$.apply(rows, new AbstractFunction0<>() {
            @Override
            public BoxedUnit apply() {
                return BoxedUnit.UNIT;
            }
        });
    }

    /** The enclosing instance of an anonymous class. */
    private static Object outer(Object inner) throws ReflectiveOperationException {
        Field outer = inner.getClass().getDeclaredField("$outer");
        outer.setAccessible(true);
        return outer.get(inner);
    }
}
