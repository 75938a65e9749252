package dev.eagre.spark;

import dev.eagre.connectors.kafka.KafkaClients;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The producers of one query's Kafka sink in this JVM, read by reflection: the connector has them in a private pool,
 * by their settings. A query's producers have its client id.
 */
public final class SinkProducers {
    private final String clientId;
    private final Map<Object, Double> errorsBefore = new IdentityHashMap<>();

    public SinkProducers(String clientId) {
        this.clientId = clientId;
        mine().forEach(producer -> errorsBefore.put(producer, errors(producer)));
    }

    /**
     * Waits until every record sent so far is delivered or has failed.
     *
     * @return whether no record of this query has failed; Spark's sink reports a failure only with the next row
     */
    public boolean flush() {
        boolean delivered = true;
        for (Object producer : mine()) {
            KafkaClients.call(producer, "flush");
            delivered &= errors(producer) <= errorsBefore.getOrDefault(producer, 0.0);
        }
        return delivered;
    }

    /** Delivers what an earlier run in this JVM left in its producers, so that nothing of it appears later. */
    public static void flushAll(String clientId) {
        if (PrivateMember.PRODUCER_POOL.available()) new SinkProducers(clientId).flush();
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

    private List<Object> mine() {
        PrivateMember member = PrivateMember.PRODUCER_POOL;
        Object pool = member.read("pool", member.module());
        List<Object> producers = new ArrayList<>();
        synchronized (pool) {
            var entries = (scala.collection.Map<?, ?>) KafkaClients.call(pool, "getAsMap");
            for (Map.Entry<?, ?> entry : CollectionConverters.asJava(entries).entrySet()) {
                if (!settings(entry.getKey()).contains(new Tuple2<>("client.id", clientId))) continue;
                producers.add(KafkaClients.call(KafkaClients.call(entry.getValue(), "producer"), "producer"));
            }
        }
        return producers;
    }

    private static List<?> settings(Object key) {
        return CollectionConverters.asJava((scala.collection.Seq<?>) key);
    }
}
