package dev.eagre.delivery;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.eagre.connectors.kafka.KafkaClients;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** Reads the headers of a part of the output in order, and collects the identities of delivered results. */
final class OutputScan {
    static final String IDENTITY = "eagre";
    static final String DEAD_LETTER = "eagre-letter";
    static final String FENCE = "eagre-fence";
    private static final long TIMEOUT_MS = 30_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String header;
    private final String pipeline;
    private final int incarnation;
    private final Map<String, Map<String, Long>> committed;
    private final Map<Object, Integer> fences = new HashMap<>();
    private final DeliveredOffsets delivered = new DeliveredOffsets();

    /**
     * @param header {@link #IDENTITY}, or {@link #DEAD_LETTER}
     * @param pipeline the id of the pipeline; headers with other ids are ignored
     * @param incarnation the incarnation of the last fence before the first record; 0 without fences
     * @param committed the source offsets from which rows are read again, as JSON
     */
    OutputScan(String header, String pipeline, int incarnation, String committed) {
        this.header = header;
        this.pipeline = pipeline;
        this.incarnation = incarnation;
        this.committed = offsets(committed);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Map<String, Long>> offsets(String json) {
        try {
            Map<String, Map<String, Number>> all = JSON.readValue(json, Map.class);
            Map<String, Map<String, Long>> longs = new HashMap<>();
            all.forEach((topic, partitions) -> partitions.forEach((partition, offset) -> longs
                    .computeIfAbsent(topic, name -> new HashMap<>())
                    .put(partition, offset.longValue())));
            return longs;
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("not valid offsets: " + json, error);
        }
    }

    /** Reads from {@code starts} to {@code ends}: offsets by topic and partition, as JSON. */
    DeliveredOffsets read(Map<String, Object> settings, String starts, String ends) throws Exception {
        try (AutoCloseable consumer = (AutoCloseable) KafkaClients.consumer(settings)) {
            return readFrom(consumer, starts, ends);
        }
    }

    /** Reads with a consumer that has no partitions assigned. */
    DeliveredOffsets readFrom(Object consumer, String starts, String ends) {
        Map<Object, Long> remaining = new HashMap<>();
        Map<String, Map<String, Long>> from = offsets(starts);
        offsets(ends).forEach((topic, partitions) -> partitions.forEach((partition, end) -> {
            if (from.get(topic).get(partition) >= end) return;
            remaining.put(KafkaClients.make(KafkaClients.COMMON + "TopicPartition", topic, Integer.valueOf(partition)), end);
        }));
        KafkaClients.call(consumer, "assign", remaining.keySet());
        remaining.keySet().forEach(partition -> KafkaClients.call(consumer, "seek", partition, start(from, partition)));
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (!remaining.isEmpty()) {
            if (poll(consumer, remaining)) deadline = System.currentTimeMillis() + TIMEOUT_MS;
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("the output cannot be read: no record within "
                        + TIMEOUT_MS / 1000 + " s from " + remaining.keySet());
            }
        }
        return delivered;
    }

    private static long start(Map<String, Map<String, Long>> from, Object partition) {
        return from.get((String) KafkaClients.call(partition, "topic"))
                .get(String.valueOf(KafkaClients.call(partition, "partition")));
    }

    /** Processes the next records, and removes completed partitions; returns whether there were any records. */
    private boolean poll(Object consumer, Map<Object, Long> remaining) {
        Object records = KafkaClients.call(consumer, "poll", Duration.ofMillis(200));
        for (Object partition : (Iterable<?>) KafkaClients.call(records, "partitions")) {
            for (Object record : (Iterable<?>) KafkaClients.call(records, "records", partition)) {
                Long end = remaining.get(partition);
                if (end != null && (Long) KafkaClients.call(record, "offset") < end) take(partition, record);
            }
        }
        remaining.entrySet().removeIf(entry -> (Long) KafkaClients.call(consumer, "position", entry.getKey()) >= entry.getValue());
        return !(Boolean) KafkaClients.call(records, "isEmpty");
    }

    private void take(Object partition, Object record) {
        for (Object entry : (Iterable<?>) KafkaClients.call(record, "headers")) {
            String name = (String) KafkaClients.call(entry, "key");
            if (name.equals(FENCE)) {
                String[] words = words(entry);
                if (words.length < 2 || !words[0].equals(pipeline)) continue;
                fences.merge(partition, Integer.parseInt(words[1]), Math::max);
            } else if (name.equals(header)) {
                add(words(entry), Math.max(incarnation, fences.getOrDefault(partition, 0)));
            }
        }
    }

    /** Adds an identity, unless another pipeline wrote it, or a fenced process wrote it after the fence. */
    private void add(String[] words, int fenced) {
        if (words.length < 3 || !words[0].equals(pipeline)) return;
        if (Integer.parseInt(words[1]) < fenced) return;
        String[] position = words[2].split("/");
        long offset = Long.parseLong(position[2]);
        Long from = committed.getOrDefault(position[0], Map.of()).get(position[1]);
        if (from == null || offset >= from) {
            String topic = header.equals(DEAD_LETTER) ? words[3] + " " + position[0] : position[0];
            delivered.add(topic, Integer.parseInt(position[1]), offset, Integer.parseInt(position[3]));
        }
    }

    private static String[] words(Object header) {
        byte[] value = (byte[]) KafkaClients.call(header, "value");
        return value == null ? new String[0] : new String(value, StandardCharsets.UTF_8).split(" ");
    }
}
