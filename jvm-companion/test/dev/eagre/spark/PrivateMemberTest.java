package dev.eagre.spark;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import scala.collection.Iterator;
import scala.collection.Iterator$;
import scala.runtime.AbstractFunction1;

class PrivateMemberTest {
    private static final class Hiding extends ClassLoader {
        private final String hidden;

        Hiding(String hidden) {
            super(PrivateMember.class.getClassLoader());
            this.hidden = hidden;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (name.endsWith("." + hidden)) throw new ClassNotFoundException(name);
            return super.loadClass(name, resolve);
        }
    }

    private static boolean availableWithout(PrivateMember member, String hidden) {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        thread.setContextClassLoader(new Hiding(hidden));
        try {
            return member.available();
        } finally {
            thread.setContextClassLoader(before);
        }
    }

    @ParameterizedTest
    @EnumSource
    void everyMemberOfThisSparkIsThere(PrivateMember member) {
        assertTrue(availableWithout(member, "Nothing"), member.name());
    }

    @ParameterizedTest
    @CsvSource({
        "PRODUCER_POOL, InternalKafkaProducerPool$",
        "PRODUCER_POOL, CachedKafkaProducer",
        "PRODUCER_POOL, InternalKafkaProducerPool$CachedProducerEntry",
        "AGGREGATE_ITERATOR, CompletionIterator",
        "FAILED_TASK_VALUES, AccumulatorV2",
    })
    void allThatAFeatureReadsIsProbed(PrivateMember member, String hidden) {
        assertFalse(availableWithout(member, hidden));
    }

    private static Iterator<Object> counting(Iterator<Object> rows) {
        return rows.map(new AbstractFunction1<>() {
            @Override
            public Object apply(Object row) {
                return row;
            }
        });
    }

    @Test
    void theIteratorThatAggregatesIsInsideTheOneThatCommits() {
        Iterator<Object> aggregating = AggregateIterator.completing(Iterator$.MODULE$.empty());
        Iterator<Object> committing = AggregateIterator.completing(counting(aggregating));
        assertSame(aggregating, AggregateIterator.of(committing));
    }

    @Test
    void anotherIteratorIsRefused() {
        Iterator<Object> committing = AggregateIterator.completing(counting(Iterator$.MODULE$.empty()));
        assertThrows(IllegalStateException.class, () -> AggregateIterator.of(committing));
    }
}
