package dev.eagre.spark;

import dev.eagre.connectors.kafka.KafkaClients;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The producers of Spark's Kafka sink in this JVM, read by reflection: the connector has them in a private
 * pool.
 */
public final class SinkProducers {
    private SinkProducers() {}

    /**
     * Waits until every record sent so far is delivered or has failed.
     *
     * @return whether no record has ever failed; Spark's sink reports a failure only with the next row
     */
    public static boolean flush() {
        boolean delivered = true;
        for (Object producer : all()) {
            KafkaClients.call(producer, "flush");
            delivered &= errors(producer) == 0;
        }
        return delivered;
    }

    private static double errors(Object producer) {
        double errors = 0;
        for (Map.Entry<?, ?> metric : ((Map<?, ?>) KafkaClients.call(producer, "metrics")).entrySet()) {
            boolean isErrorCount = KafkaClients.call(metric.getKey(), "name").equals("record-error-total")
                    && KafkaClients.call(metric.getKey(), "group").equals("producer-metrics");
            if (isErrorCount) errors += ((Number) KafkaClients.call(metric.getValue(), "metricValue")).doubleValue();
        }
        return errors;
    }

    private static List<Object> all() {
        PrivateMember member = PrivateMember.PRODUCER_POOL;
        Object pool = member.read("pool", member.module());
        List<Object> producers = new ArrayList<>();
        synchronized (pool) {
            var entries = (scala.collection.Map<?, ?>) KafkaClients.call(pool, "getAsMap");
            for (Object entry : CollectionConverters.asJava(entries).values()) {
                producers.add(KafkaClients.call(KafkaClients.call(entry, "producer"), "producer"));
            }
        }
        return producers;
    }
}
