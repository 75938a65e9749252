package dev.eagre.bench.streams;

import java.time.Duration;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** Processors for what the DSL does not offer. */
final class Processors {
    private Processors() {}

    /** Sets the time of a result to the time of its sending; Streams would use the time of its event. */
    static final class Stamp extends ContextualProcessor<String, Object, String, Object> {
        @Override
        public void process(Record<String, Object> result) {
            context().forward(result.withTimestamp(context().currentSystemTimeMs()));
        }
    }

    /** Forwards the first payment of an id; an id is forgotten after ten minutes. */
    static final class Dedup implements ProcessorSupplier<String, Payment, String, Payment> {
        private static final Duration REMEMBERED = Duration.ofMinutes(10);
        private static final String SEEN = "seen";
        private static final byte[] PRESENT = {};

        @Override
        public Set<StoreBuilder<?>> stores() {
            return Set.of(Stores.windowStoreBuilder(
                    Stores.persistentWindowStore(SEEN, REMEMBERED, REMEMBERED, false),
                    Serdes.String(),
                    Serdes.ByteArray()));
        }

        @Override
        public ContextualProcessor<String, Payment, String, Payment> get() {
            return new FirstOnly();
        }

        private static final class FirstOnly extends ContextualProcessor<String, Payment, String, Payment> {
            private WindowStore<String, byte[]> seen;

            @Override
            public void init(ProcessorContext<String, Payment> context) {
                super.init(context);
                seen = context.getStateStore(SEEN);
            }

            @Override
            public void process(Record<String, Payment> payment) {
                if (!known(payment.key(), payment.timestamp())) {
                    seen.put(payment.key(), PRESENT, payment.timestamp());
                    context().forward(payment);
                }
            }

            private boolean known(String id, long time) {
                long reach = REMEMBERED.toMillis();
                try (WindowStoreIterator<byte[]> times = seen.fetch(id, time - reach, time + reach)) {
                    return times.hasNext();
                }
            }
        }
    }
}
