package dev.eagre.metrics;

import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import javax.management.AttributeNotFoundException;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * The current lag of the Kafka consumers of this JVM. Real-Time Mode reports progress once per epoch; the
 * consumers' own metrics are updated at every fetch.
 */
public final class ConsumerLag {
    private static final String LAGS =
            "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*,topic=*,partition=*";

    private static final String ALL = "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*";

    private ConsumerLag() {}

    /** Records consumed by the open consumers; it changes as long as any of them reads. */
    public static long consumed() throws JMException {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        double consumed = 0;
        for (ObjectName name : server.queryNames(new ObjectName(ALL), null)) {
            double count = figure(server, name, "records-consumed-total");
            consumed += Double.isNaN(count) ? 0 : count;
        }
        return (long) consumed;
    }

    /** Records not yet fetched, by {@code topic/partition}; empty before the first fetch. */
    public static Map<String, Long> lag() throws JMException {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        Set<ObjectName> names = server.queryNames(new ObjectName(LAGS), null);
        Map<String, Long> lags = new HashMap<>();
        for (ObjectName name : names) {
            double lag = figure(server, name, "records-lag");
            if (!Double.isNaN(lag)) {
                String partition = name.getKeyProperty("topic") + "/" + name.getKeyProperty("partition");
                lags.merge(partition, (long) lag, Math::max);
            }
        }
        return lags;
    }

    /** NaN if the consumer was closed meanwhile or has not fetched yet. */
    private static double figure(MBeanServer server, ObjectName name, String figure) throws JMException {
        try {
            return (Double) server.getAttribute(name, figure);
        } catch (InstanceNotFoundException | AttributeNotFoundException e) {
            return Double.NaN;
        }
    }
}
