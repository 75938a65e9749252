package dev.eagre.delivery;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Row;

/** Reads the headers of an output partition, in their order, into the set of what was delivered. */
final class Scan implements FlatMapFunction<Iterator<Row>, Delivered> {
    static final String IDENTITY = "eagre";
    static final String LETTER = "eagre-letter";
    static final String FENCE = "eagre-fence";

    private final String header;
    private final String pipeline;
    private final int incarnation;
    private final Map<String, Map<Integer, Long>> committed = new HashMap<>();

    /** @param header {@link #IDENTITY}, or {@link #LETTER} */
    Scan(String header, String pipeline, int incarnation, String committed) {
        this.header = header;
        this.pipeline = pipeline;
        this.incarnation = incarnation;
        try {
            JsonNode topics = new ObjectMapper().readTree(committed);
            topics.properties().forEach(topic -> {
                Map<Integer, Long> offsets = new HashMap<>();
                topic.getValue().properties().forEach(
                        one -> offsets.put(Integer.valueOf(one.getKey()), one.getValue().asLong()));
                this.committed.put(topic.getKey(), offsets);
            });
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("the committed offsets are no JSON: " + committed, error);
        }
    }

    @Override
    public Iterator<Delivered> call(Iterator<Row> records) {
        Delivered found = new Delivered();
        int fenced = incarnation;
        while (records.hasNext()) {
            List<Row> headers = records.next().getList(0);
            if (headers == null) continue;
            for (Row one : headers) {
                byte[] value = one.isNullAt(1) ? new byte[0] : (byte[]) one.get(1);
                if (one.getString(0).equals(FENCE)) {
                    String[] words = words(value);
                    if (words.length < 2 || !words[0].equals(pipeline)) continue;
                    fenced = Math.max(fenced, Integer.parseInt(words[1]));
                } else if (one.getString(0).equals(header)) {
                    note(words(value), fenced, found);
                }
            }
        }
        return List.of(found).iterator();
    }

    /** Adds an identity, unless another pipeline wrote it, or a process after its fence. */
    private void note(String[] words, int fenced, Delivered found) {
        if (words.length < 3 || !words[0].equals(pipeline)) return;
        if (Integer.parseInt(words[1]) < fenced) return;
        String[] position = words[2].split("/");
        int partition = Integer.parseInt(position[1]);
        long offset = Long.parseLong(position[2]);
        Long from = committed.getOrDefault(position[0], Map.of()).get(partition);
        if (from == null || offset >= from) {
            String topic = header.equals(LETTER) ? words[3] + " " + position[0] : position[0];
            found.add(topic, partition, offset, Integer.parseInt(position[3]));
        }
    }

    private static String[] words(byte[] header) {
        return new String(header, StandardCharsets.UTF_8).split(" ");
    }
}
