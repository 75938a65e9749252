package dev.eagre.deadletter;

import dev.eagre.commit.RecordPosition;
import dev.eagre.deadletter.DeadLetterProducer.Order;
import dev.eagre.kafka.KafkaClients;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map.Entry;
import java.util.Map;
import java.util.TreeMap;

/**
 * Reads records again by their position, for letters of rows that are known by it alone. Those of a
 * partition are read together, from the first to the last; where the next one is far, it is sought.
 */
final class SourceRecordReader {
    private static final long PATIENCE_MS = 10_000;
    private static final long FAR = 500;

    private final Map<String, Object> settings;
    private Object consumer;

    SourceRecordReader(Map<String, Object> settings) {
        this.settings = settings;
    }

    /** Gives each letter its record; one that cannot be read is noted as lost. */
    void find(List<Order> orders) {
        Map<String, List<Order>> partitions = new TreeMap<>();
        for (Order order : orders) {
            RecordPosition position = order.letter.position();
            if (order.letter.original() != null) continue;
            if (position == null) {
                order.lacks(SourceRecord.NOTHING, "it is not known which record the row came from");
                continue;
            }
            partitions.computeIfAbsent(position.topic() + "/" + position.partition(), name -> new ArrayList<>())
                    .add(order);
        }
        partitions.values().forEach(this::readOrGiveUp);
    }

    private void readOrGiveUp(List<Order> orders) {
        try {
            read(orders);
        } catch (RuntimeException error) {
            close();
            for (Order order : orders) {
                if (order.letter.original() == null) {
                    order.lacks(SourceRecord.NOTHING, "the record could not be read again: " + error);
                }
            }
        }
    }

    private void read(List<Order> orders) {
        orders.sort(Comparator.comparingLong(SourceRecordReader::offset));
        RecordPosition first = orders.get(0).letter.position();
        if (consumer == null) consumer = KafkaClients.consumer(settings);
        Object partition = KafkaClients.make(KafkaClients.COMMON + "TopicPartition", first.topic(), first.partition());
        KafkaClients.call(consumer, "assign", KafkaClients.one(partition));
        long position = Long.MIN_VALUE;
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        int next = 0;
        while (next < orders.size()) {
            long wanted = offset(orders.get(next));
            if (position < wanted - FAR) {
                KafkaClients.call(consumer, "seek", partition, wanted);
                position = wanted;
            }
            Object records = KafkaClients.call(consumer, "poll", Duration.ofMillis(500));
            for (Object record : (Iterable<?>) records) {
                position = (Long) KafkaClients.call(record, "offset") + 1;
                int before = next;
                next = match(orders, next, record, position - 1);
                if (next > before) deadline = System.currentTimeMillis() + PATIENCE_MS;
                if (next == orders.size()) break;
            }
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("nothing came within " + PATIENCE_MS / 1000 + " s");
            }
        }
    }

    /** Gives a record to those who want it; those who want an earlier one will not get it any more. */
    private static int match(List<Order> orders, int from, Object record, long offset) {
        int next = from;
        while (next < orders.size() && offset(orders.get(next)) <= offset) {
            Order order = orders.get(next);
            if (offset(order) == offset) order.letter = order.letter.with(original(record));
            else order.lacks(SourceRecord.NOTHING, "the record is no longer in its topic");
            next++;
        }
        return next;
    }

    private static SourceRecord original(Object record) {
        List<Entry<String, byte[]>> headers = new ArrayList<>();
        for (Object header : (Iterable<?>) KafkaClients.call(record, "headers")) {
            headers.add(SourceRecord.header((String) KafkaClients.call(header, "key"), (byte[]) KafkaClients.call(header, "value")));
        }
        return new SourceRecord((byte[]) KafkaClients.call(record, "key"), (byte[]) KafkaClients.call(record, "value"), headers);
    }

    private static long offset(Order order) {
        return order.letter.position().offset();
    }

    void close() {
        Object closed = consumer;
        consumer = null;
        try {
            if (closed != null) ((AutoCloseable) closed).close();
        } catch (Exception error) {
            // It only read.
        }
    }
}
