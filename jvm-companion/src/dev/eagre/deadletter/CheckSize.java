package dev.eagre.deadletter;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.commit.InFlightOffsets;
import dev.eagre.commit.RecordPosition;
import dev.eagre.connectors.kafka.KafkaClients;
import dev.eagre.spark.RowOrdinals;
import java.io.Serializable;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Checks whether a record is small enough for the sink. Kafka's producer rejects a larger one, and
 * Spark's sink then fails the query, again at each restart.
 *
 * <p>It computes the size as kafka-clients 3.9 does ({@code AbstractRecords.estimateSizeInBytesUpperBound}),
 * so the producer accepts every record that passes.
 */
public final class CheckSize implements Serializable {
    private static final int BATCH_OVERHEAD = 61;
    private static final int RECORD_OVERHEAD = 21;
    private static final int ALWAYS_FITS = 100_000;
    private static final long REFRESH_MS = 60_000;

    private static final Map<String, TopicLimit> LIMITS = new ConcurrentHashMap<>();

    private final String rules;
    private transient ErrorPolicy policy;
    private transient RowOrdinals ordinals;
    private transient int limit;
    private transient boolean compressed;
    private transient boolean rowByRow;
    private transient JsonNode json;

    /**
     * @param rules a {@link ErrorPolicy} as JSON, with {@code limit}, {@code compressed}, the
     *     {@code topic} and {@code settings} of the sink, and {@code row_by_row}: whether a row here
     *     comes from the row that was read last
     */
    public CheckSize(String rules) {
        this.rules = rules;
    }

    /**
     * @param value the value's length; -1 for null
     * @param key the key's length; -1 for null
     * @param sink the sink's topic; null if the sink has only one
     * @param topic the source topic of the row; null if unknown
     */
    public boolean fits(
            int value, int key, ArrayData headers, UTF8String sink, UTF8String topic, int partition, long offset) {
        if (policy == null) initialize();
        long size = BATCH_OVERHEAD + RECORD_OVERHEAD + sized(key) + sized(value) + headers(headers);
        if (size <= ALWAYS_FITS && size <= limit) return true;
        int allowed = Math.min(limit, topicLimit(sink == null ? json.get("topic").asText() : sink.toString()));
        if (size <= allowed) return true;
        RecordPosition position = topic == null ? (rowByRow ? InFlightOffsets.lastOfThread() : null)
                : new RecordPosition(topic.toString(), partition, offset);
        if (position != null) {
            ordinals.next(UTF8String.fromString(position.topic()), position.partition(), position.offset());
        }
        policy.apply("ROW_TOO_LARGE", DeadLetter.of(position,
                "TOO_LARGE: the record has " + size + " bytes, and the sink accepts " + allowed), ordinals.ordinal());
        return false;
    }

    private void initialize() {
        json = ErrorPolicy.read(rules);
        limit = json.get("limit").asInt();
        compressed = json.get("compressed").asBoolean();
        rowByRow = json.get("row_by_row").asBoolean();
        policy = ErrorPolicy.forThisTask(json, "sink");
        ordinals = new RowOrdinals();
    }

    private record TopicLimit(int bytes, long readAt) {}

    /** The topic's limit. It applies after compression, so with compression only the producer's limit is known. */
    private int topicLimit(String topic) {
        if (compressed) return Integer.MAX_VALUE;
        JsonNode settings = json.get("settings");
        long now = System.currentTimeMillis();
        String key = settings.path("bootstrap.servers").asText() + "/" + topic;
        TopicLimit limitOfTopic = LIMITS.get(key);
        if (limitOfTopic == null || now - limitOfTopic.readAt() > REFRESH_MS) {
            int bytes = KafkaClients.largestMessage(DeadLetterTopics.settings(settings), topic);
            limitOfTopic = new TopicLimit(bytes > 0 ? bytes : Integer.MAX_VALUE, now);
            LIMITS.put(key, limitOfTopic);
        }
        return limitOfTopic.bytes();
    }

    private static long headers(ArrayData headers) {
        int count = headers == null ? 0 : headers.numElements();
        long size = varint(count);
        for (int i = 0; i < count; i++) {
            InternalRow header = headers.getStruct(i, 2);
            size += sized(header.getUTF8String(0).numBytes());
            size += sized(header.isNullAt(1) ? -1 : header.getBinary(1).length);
        }
        return size;
    }

    /** The size of a field: its length prefix and its bytes. */
    private static long sized(int length) {
        return length < 0 ? 1 : (long) varint(length) + length;
    }

    /** The size of Kafka's zigzag-encoded varint. */
    private static int varint(int number) {
        int bits = number << 1;
        int bytes = 1;
        while ((bits & 0xffffff80) != 0) {
            bits >>>= 7;
            bytes++;
        }
        return bytes;
    }

    @Override
    public String toString() {
        return "sink";
    }
}
