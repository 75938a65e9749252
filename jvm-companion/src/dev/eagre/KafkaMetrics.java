package dev.eagre;

import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * How far behind the Kafka consumers of this JVM are, right now. Real-Time Mode reports progress once
 * per epoch; the consumers' own metrics are current at every fetch.
 */
public final class KafkaMetrics {
    private static final String LAGS =
            "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*,topic=*,partition=*";

    private KafkaMetrics() {}

    /** Records not yet fetched, by {@code topic/partition}; empty before the first fetch. */
    public static Map<String, Long> lag() throws JMException {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        Set<ObjectName> names = server.queryNames(new ObjectName(LAGS), null);
        Map<String, Long> lags = new HashMap<>();
        for (ObjectName name : names) {
            Object lag = server.getAttribute(name, "records-lag");
            if (lag instanceof Double value && !value.isNaN()) {
                String partition = name.getKeyProperty("topic") + "/" + name.getKeyProperty("partition");
                lags.merge(partition, value.longValue(), Math::min);
            }
        }
        return lags;
    }
}
