package dev.eagre.bench.flink;

import java.io.IOException;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.triggers.Trigger;
import org.apache.flink.streaming.api.windowing.triggers.TriggerResult;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** The parts of a window that emits its totals after every payment. */
final class Windows {
    private Windows() {}

    /**
     * Fires for each payment and keeps the window's state until its time has passed: what {@code
     * CountTrigger.of(1)} does, without that trigger's own count in RocksDB.
     */
    static final class Always extends Trigger<Payment, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public TriggerResult onElement(
                Payment payment, long time, TimeWindow window, TriggerContext context) {
            return TriggerResult.FIRE;
        }

        @Override
        public TriggerResult onEventTime(long time, TimeWindow window, TriggerContext context) {
            return TriggerResult.CONTINUE;
        }

        @Override
        public TriggerResult onProcessingTime(long time, TimeWindow window, TriggerContext context) {
            return TriggerResult.CONTINUE;
        }

        @Override
        public void clear(TimeWindow window, TriggerContext context) {}
    }

    /** Adds each payment to the totals, so that no payment is stored. */
    static final class Adding implements AggregateFunction<Payment, Totals, Totals> {
        private static final long serialVersionUID = 1;

        @Override
        public Totals createAccumulator() {
            return new Totals();
        }

        @Override
        public Totals add(Payment payment, Totals totals) {
            return totals.add(payment.amount);
        }

        @Override
        public Totals getResult(Totals totals) {
            return totals;
        }

        @Override
        public Totals merge(Totals one, Totals other) {
            throw new UnsupportedOperationException("these windows never merge");
        }
    }

    /** Count and sum. */
    static final class Tumbled implements WindowFunction<Totals, Output, String, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void apply(
                String card, TimeWindow window, Iterable<Totals> only, Collector<Output> out)
                throws IOException {
            Totals totals = only.iterator().next();
            out.collect(Output.of(
                    card, new Output.Windowed(card, window.getStart(), totals.n, totals.total)));
        }
    }

    /** Count, sum, least and largest. */
    static final class Rolled implements WindowFunction<Totals, Output, String, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void apply(
                String card, TimeWindow window, Iterable<Totals> only, Collector<Output> out)
                throws IOException {
            Totals totals = only.iterator().next();
            out.collect(Output.of(card, new Output.Rolled(
                    card, window.getStart(), totals.n, totals.total, totals.least, totals.largest)));
        }
    }
}
