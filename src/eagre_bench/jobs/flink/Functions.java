package dev.eagre.bench.flink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.util.Collector;

/** The functions that process one event at a time. */
final class Functions {
    private static final long LEAST_AMOUNT = 500;
    private static final long MIDDLE_AMOUNT = 10_000;
    private static final long HIGH_AMOUNT = 50_000;
    private static final Duration REMEMBERED = Duration.ofMinutes(10);

    private Functions() {}

    /** The unchanged event. */
    static final class Forward implements MapFunction<Event, Output> {
        private static final long serialVersionUID = 1;

        @Override
        public Output map(Event event) throws IOException {
            return Output.of(event.id(), event);
        }
    }

    /** Payments above a floor, with their tier. */
    static final class Project implements FlatMapFunction<Payment, Output> {
        private static final long serialVersionUID = 1;

        @Override
        public void flatMap(Payment payment, Collector<Output> out) throws IOException {
            long amount = payment.amount;
            if (amount >= LEAST_AMOUNT) {
                out.collect(Output.of(
                        payment.id, new Output.Tiered(payment.id, payment.card, amount, tier(amount))));
            }
        }

        private static String tier(long amount) {
            return amount >= HIGH_AMOUNT ? "high" : amount >= MIDDLE_AMOUNT ? "middle" : "low";
        }
    }

    /** Payments with their merchant's category and country, from a table in every task's memory. */
    static final class Enrich extends RichFlatMapFunction<Payment, Output> {
        private static final long serialVersionUID = 1;
        private final String table;
        private transient Map<String, String[]> merchants;

        Enrich(String table) {
            this.table = table;
        }

        @Override
        public void open(OpenContext context) throws IOException {
            merchants = new HashMap<>();
            for (String line : Files.readAllLines(Path.of(table))) {
                String[] fields = line.split(",");
                merchants.put(fields[0], fields);
            }
        }

        @Override
        public void flatMap(Payment payment, Collector<Output> out) throws IOException {
            String[] known = merchants.get(payment.merchant);
            if (known != null) {
                out.collect(Output.of(payment.id, new Output.Enriched(
                        payment.id, payment.card, payment.amount, known[1], known[2])));
            }
        }
    }

    /** How many payments of the card so far, and their sum. */
    static final class Count extends RichFlatMapFunction<Payment, Output> {
        private static final long serialVersionUID = 1;
        private transient ValueState<Totals> stored;

        @Override
        public void open(OpenContext context) {
            stored = getRuntimeContext().getState(new ValueStateDescriptor<>("totals", Totals.class));
        }

        @Override
        public void flatMap(Payment payment, Collector<Output> out) throws IOException {
            Totals known = stored.value();
            Totals totals = (known == null ? new Totals() : known).add(payment.amount);
            stored.update(totals);
            out.collect(Output.of(
                    payment.card, new Output.Counted(payment.card, totals.n, totals.total)));
        }
    }

    /** The first payment of an id; an id is forgotten after ten minutes. */
    static final class Dedup extends RichFlatMapFunction<Payment, Output> {
        private static final long serialVersionUID = 1;
        private transient ValueState<Boolean> seen;

        @Override
        public void open(OpenContext context) {
            ValueStateDescriptor<Boolean> state = new ValueStateDescriptor<>("seen", Boolean.class);
            state.enableTimeToLive(StateTtlConfig.newBuilder(REMEMBERED).build());
            seen = getRuntimeContext().getState(state);
        }

        @Override
        public void flatMap(Payment payment, Collector<Output> out) throws IOException {
            if (seen.value() == null) {
                seen.update(true);
                out.collect(Output.of(
                        payment.id, new Output.First(payment.id, payment.card, payment.amount)));
            }
        }
    }
}
