package dev.eagre.bench.streams;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;

/** The workloads in the Streams DSL. Topic and state have the same key, so nothing is repartitioned. */
final class Workloads {
    private static final long LEAST_AMOUNT = 500;
    private static final long MIDDLE_AMOUNT = 10_000;
    private static final long HIGH_AMOUNT = 50_000;
    private static final Duration TUMBLE = Duration.ofSeconds(10);
    private static final Duration ROLL = Duration.ofSeconds(60);
    private static final Duration ROLL_EVERY = Duration.ofSeconds(20);
    private static final Duration OUT_OF_ORDER = Duration.ofSeconds(10);

    private final JobFile job;
    private final StreamsBuilder builder = new StreamsBuilder();

    Workloads(JobFile job) {
        this.job = job;
    }

    Topology topology() throws IOException {
        results()
                .process(Processors.Stamp::new)
                .to(job.sink(), Produced.with(Serdes.String(), Json.of(Object.class)));
        return builder.build();
    }

    private KStream<String, Object> results() throws IOException {
        return switch (job.workload()) {
            case "field" -> events(Event.class).map((key, event) -> result(event.id(), event));
            case "stateless" -> stateless();
            case "enrich" -> enrich(merchants());
            case "count" -> count();
            case "dedup" -> dedup();
            case "window" -> window();
            case "features" -> features();
            default -> throw new IllegalArgumentException("no workload of Streams: " + job.workload());
        };
    }

    private KStream<String, Object> stateless() {
        return events(Payment.class)
                .filter((card, p) -> p.amount() >= LEAST_AMOUNT)
                .map((card, p) -> result(p.id(), new Json.Tiered(p.id(), card, p.amount(), tier(p))));
    }

    private static String tier(Payment p) {
        return p.amount() >= HIGH_AMOUNT ? "high" : p.amount() >= MIDDLE_AMOUNT ? "middle" : "low";
    }

    private KStream<String, Object> enrich(Map<String, String[]> merchants) {
        return events(Payment.class)
                .filter((card, p) -> merchants.containsKey(p.merchant()))
                .map((card, p) -> result(p.id(), enriched(p, merchants.get(p.merchant()))));
    }

    private static Json.Enriched enriched(Payment p, String[] merchant) {
        return new Json.Enriched(p.id(), p.card(), p.amount(), merchant[1], merchant[2]);
    }

    private KStream<String, Object> count() {
        return events(Payment.class)
                .groupByKey()
                .aggregate(
                        () -> Totals.NONE,
                        (card, p, totals) -> totals.add(p.amount()),
                        store())
                .toStream()
                .mapValues((card, t) -> new Json.Counted(card, t.n(), t.total()));
    }

    private KStream<String, Object> dedup() {
        return events(Payment.class)
                .process(new Processors.Dedup())
                .mapValues((id, p) -> new Json.First(id, p.card(), p.amount()));
    }

    private KStream<String, Object> window() {
        return totals(TimeWindows.ofSizeAndGrace(TUMBLE, OUT_OF_ORDER))
                .toStream()
                .map((w, t) -> result(
                        w.key(), new Json.Windowed(w.key(), w.window().start(), t.n(), t.total())));
    }

    private KStream<String, Object> features() {
        return totals(TimeWindows.ofSizeAndGrace(ROLL, OUT_OF_ORDER).advanceBy(ROLL_EVERY))
                .toStream()
                .map((w, t) -> result(w.key(), rolled(w, t)));
    }

    private static Json.Rolled rolled(Windowed<String> w, Totals t) {
        return new Json.Rolled(
                w.key(), w.window().start(), t.n(), t.total(), t.least(), t.largest());
    }

    private KTable<Windowed<String>, Totals> totals(TimeWindows windows) {
        return events(Payment.class)
                .groupByKey()
                .windowedBy(windows)
                .aggregate(
                        () -> Totals.NONE,
                        (card, p, totals) -> totals.add(p.amount()),
                        store());
    }

    private static <S extends StateStore> Materialized<String, Totals, S> store() {
        return Materialized.<String, Totals, S>as("totals")
                .withKeySerde(Serdes.String())
                .withValueSerde(Totals.SERDE);
    }

    private <T extends WithEventTime> KStream<String, T> events(Class<T> type) {
        return builder.stream(
                job.source(),
                Consumed.with(Serdes.String(), Json.of(type))
                        .withTimestampExtractor((event, ignored) -> ((WithEventTime) event.value()).time()));
    }

    private static KeyValue<String, Object> result(String key, Object value) {
        return new KeyValue<>(key, value);
    }

    /** A table that never changes needs no topic: every instance holds it in memory. */
    private Map<String, String[]> merchants() throws IOException {
        Map<String, String[]> merchants = new HashMap<>();
        for (String line : Files.readAllLines(Path.of(job.merchants()))) {
            String[] fields = line.split(",");
            merchants.put(fields[0], fields);
        }
        return merchants;
    }
}
