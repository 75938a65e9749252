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
 * How far behind the Kafka consumers of this JVM are, right now. Real-Time Mode reports progress once
 * per epoch; the consumers' own metrics are current at every fetch.
 */
public final class ConsumerLag {
    private static final String LAGS =
            "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*,topic=*,partition=*";

    private static final String ALL = "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*";

    private ConsumerLag() {}

    /** Records taken by the consumers that are open: it changes as long as any of them reads. */
    public static long consumed() throws JMException {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        double taken = 0;
        for (ObjectName name : server.queryNames(new ObjectName(ALL), null)) {
            double one = figure(server, name, "records-consumed-total");
            taken += Double.isNaN(one) ? 0 : one;
        }
        return (long) taken;
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

    /** A consumer may be closed, or may not have fetched yet, between the two questions. */
    private static double figure(MBeanServer server, ObjectName name, String figure) throws JMException {
        try {
            return (Double) server.getAttribute(name, figure);
        } catch (InstanceNotFoundException | AttributeNotFoundException e) {
            return Double.NaN;
        }
    }
}
