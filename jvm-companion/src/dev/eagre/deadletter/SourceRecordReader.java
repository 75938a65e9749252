package dev.eagre.deadletter;

import dev.eagre.commit.RecordPosition;
import dev.eagre.deadletter.DeadLetterProducer.Request;
import dev.eagre.connectors.kafka.KafkaClients;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map.Entry;
import java.util.Map;
import java.util.TreeMap;

/**
 * Reads records again by their position, for dead letters that know only the position. The records of a
 * partition are read together, in order. If the next one is far away, the reader seeks.
 */
final class SourceRecordReader {
    private static final long TIMEOUT_MS = 10_000;
    private static final long SEEK_DISTANCE = 500;

    private final Map<String, Object> settings;
    private Object consumer;

    SourceRecordReader(Map<String, Object> settings) {
        this.settings = settings;
    }

    /** Reads the record of each dead letter; a record that cannot be read is marked as lost. */
    void readAll(List<Request> requests) {
        Map<String, List<Request>> partitions = new TreeMap<>();
        for (Request request : requests) {
            RecordPosition position = request.letter.position();
            if (request.letter.original() != null) continue;
            if (position == null) {
                request.replaceRecord(SourceRecord.EMPTY, "the record of the row is unknown");
                continue;
            }
            partitions.computeIfAbsent(position.topic() + "/" + position.partition(), name -> new ArrayList<>())
                    .add(request);
        }
        partitions.values().forEach(this::readPartition);
    }

    private void readPartition(List<Request> requests) {
        try {
            read(requests);
        } catch (RuntimeException error) {
            close();
            for (Request request : requests) {
                if (request.letter.original() == null) {
                    request.replaceRecord(SourceRecord.EMPTY, "the record could not be read again: " + error);
                }
            }
        }
    }

    private void read(List<Request> requests) {
        requests.sort(Comparator.comparingLong(SourceRecordReader::offset));
        RecordPosition first = requests.get(0).letter.position();
        if (consumer == null) consumer = KafkaClients.consumer(settings);
        Object partition = KafkaClients.make(KafkaClients.COMMON + "TopicPartition", first.topic(), first.partition());
        KafkaClients.call(consumer, "assign", KafkaClients.single(partition));
        long position = Long.MIN_VALUE;
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        int next = 0;
        while (next < requests.size()) {
            long target = offset(requests.get(next));
            if (position < target - SEEK_DISTANCE) {
                KafkaClients.call(consumer, "seek", partition, target);
                position = target;
            }
            Object records = KafkaClients.call(consumer, "poll", Duration.ofMillis(500));
            for (Object record : (Iterable<?>) records) {
                position = (Long) KafkaClients.call(record, "offset") + 1;
                int before = next;
                next = match(requests, next, record, position - 1);
                if (next > before) deadline = System.currentTimeMillis() + TIMEOUT_MS;
                if (next == requests.size()) break;
            }
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("no record within " + TIMEOUT_MS / 1000 + " s");
            }
        }
    }

    /** Assigns a record to the requests for its offset; requests for earlier offsets are lost. */
    private static int match(List<Request> requests, int from, Object record, long offset) {
        int next = from;
        while (next < requests.size() && offset(requests.get(next)) <= offset) {
            Request request = requests.get(next);
            if (offset(request) == offset) request.letter = request.letter.with(original(record));
            else request.replaceRecord(SourceRecord.EMPTY, "the record is no longer in its topic");
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

    private static long offset(Request request) {
        return request.letter.position().offset();
    }

    void close() {
        Object closing = consumer;
        consumer = null;
        try {
            if (closing != null) ((AutoCloseable) closing).close();
        } catch (Exception error) {
            // Nothing is lost: the consumer only read.
        }
    }
}
