package dev.eagre.delivery;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.eagre.kafka.KafkaClients;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** Reads the headers of a part of the output, in their order, into the set of what was delivered. */
final class OutputScan {
    static final String IDENTITY = "eagre";
    static final String LETTER = "eagre-letter";
    static final String FENCE = "eagre-fence";
    private static final long PATIENCE_MS = 30_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String header;
    private final String pipeline;
    private final int incarnation;
    private final Map<String, Map<String, Long>> committed;
    private final Map<Object, Integer> fences = new HashMap<>();
    private final DeliveredOffsets found = new DeliveredOffsets();

    /**
     * @param header {@link #IDENTITY}, or {@link #LETTER}
     * @param pipeline the id that a header must name to count
     * @param incarnation the one whose fence stands last before the first record that is read; 0
     *     where no fences are written
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
            throw new IllegalArgumentException("these are no offsets: " + json, error);
        }
    }

    /** Reads from where to where, each by topic and partition as JSON. */
    DeliveredOffsets read(Map<String, Object> settings, String starts, String ends) throws Exception {
        try (AutoCloseable consumer = (AutoCloseable) KafkaClients.consumer(settings)) {
            return readFrom(consumer, starts, ends);
        }
    }

    /** With a consumer that has no partitions yet. */
    DeliveredOffsets readFrom(Object consumer, String starts, String ends) {
        Map<Object, Long> left = new HashMap<>();
        Map<String, Map<String, Long>> from = offsets(starts);
        offsets(ends).forEach((topic, partitions) -> partitions.forEach((partition, end) -> {
            if (from.get(topic).get(partition) >= end) return;
            left.put(KafkaClients.make(KafkaClients.COMMON + "TopicPartition", topic, Integer.valueOf(partition)), end);
        }));
        KafkaClients.call(consumer, "assign", left.keySet());
        left.keySet().forEach(partition -> KafkaClients.call(consumer, "seek", partition, start(from, partition)));
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (!left.isEmpty()) {
            if (poll(consumer, left)) deadline = System.currentTimeMillis() + PATIENCE_MS;
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("the output cannot be read: nothing came within "
                        + PATIENCE_MS / 1000 + " s from " + left.keySet());
            }
        }
        return found;
    }

    private static long start(Map<String, Map<String, Long>> from, Object partition) {
        return from.get((String) KafkaClients.call(partition, "topic"))
                .get(String.valueOf(KafkaClients.call(partition, "partition")));
    }

    /** Takes what has come, and forgets the partitions that are read; tells whether anything came. */
    private boolean poll(Object consumer, Map<Object, Long> left) {
        Object records = KafkaClients.call(consumer, "poll", Duration.ofMillis(200));
        for (Object partition : (Iterable<?>) KafkaClients.call(records, "partitions")) {
            for (Object record : (Iterable<?>) KafkaClients.call(records, "records", partition)) {
                Long end = left.get(partition);
                if (end != null && (Long) KafkaClients.call(record, "offset") < end) take(partition, record);
            }
        }
        left.entrySet().removeIf(one -> (Long) KafkaClients.call(consumer, "position", one.getKey()) >= one.getValue());
        return !(Boolean) KafkaClients.call(records, "isEmpty");
    }

    private void take(Object partition, Object record) {
        for (Object one : (Iterable<?>) KafkaClients.call(record, "headers")) {
            String name = (String) KafkaClients.call(one, "key");
            if (name.equals(FENCE)) {
                String[] words = words(one);
                if (words.length < 2 || !words[0].equals(pipeline)) continue;
                fences.merge(partition, Integer.parseInt(words[1]), Math::max);
            } else if (name.equals(header)) {
                note(words(one), Math.max(incarnation, fences.getOrDefault(partition, 0)));
            }
        }
    }

    /** Adds an identity, unless another pipeline wrote it, or a process after its fence. */
    private void note(String[] words, int fenced) {
        if (words.length < 3 || !words[0].equals(pipeline)) return;
        if (Integer.parseInt(words[1]) < fenced) return;
        String[] position = words[2].split("/");
        long offset = Long.parseLong(position[2]);
        Long from = committed.getOrDefault(position[0], Map.of()).get(position[1]);
        if (from == null || offset >= from) {
            String topic = header.equals(LETTER) ? words[3] + " " + position[0] : position[0];
            found.add(topic, Integer.parseInt(position[1]), offset, Integer.parseInt(position[3]));
        }
    }

    private static String[] words(Object header) {
        byte[] value = (byte[]) KafkaClients.call(header, "value");
        return value == null ? new String[0] : new String(value, StandardCharsets.UTF_8).split(" ");
    }
}
