package dev.eagre.spark;

import dev.eagre.kafka.KafkaClients;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The producers of Spark's Kafka sink in this JVM, by reflection: the connector keeps them in a pool of its
 * own.
 */
public final class SinkProducers {
    private SinkProducers() {}

    /**
     * Waits until every record that was sent so far is delivered, or given up.
     *
     * @return whether no record was ever given up; Spark's sink fails over one with the next row
     */
    public static boolean flush() {
        boolean kept = true;
        for (Object producer : all()) {
            KafkaClients.call(producer, "flush");
            kept &= errors(producer) == 0;
        }
        return kept;
    }

    private static double errors(Object producer) {
        double errors = 0;
        for (Map.Entry<?, ?> one : ((Map<?, ?>) KafkaClients.call(producer, "metrics")).entrySet()) {
            boolean wanted = KafkaClients.call(one.getKey(), "name").equals("record-error-total")
                    && KafkaClients.call(one.getKey(), "group").equals("producer-metrics");
            if (wanted) errors += ((Number) KafkaClients.call(one.getValue(), "metricValue")).doubleValue();
        }
        return errors;
    }

    private static List<Object> all() {
        PrivateMember member = PrivateMember.PRODUCER_POOL;
        Object pool = member.read("pool", member.module());
        List<Object> found = new ArrayList<>();
        synchronized (pool) {
            var entries = (scala.collection.Map<?, ?>) KafkaClients.call(pool, "getAsMap");
            for (Object entry : CollectionConverters.asJava(entries).values()) {
                found.add(KafkaClients.call(KafkaClients.call(entry, "producer"), "producer"));
            }
        }
        return found;
    }
}
