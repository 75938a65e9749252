package dev.eagre.deadletter;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.commit.InFlightOffsets;
import dev.eagre.commit.RecordPosition;
import dev.eagre.kafka.KafkaClients;
import dev.eagre.spark.RowOrdinals;
import java.io.Serializable;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Whether a record is small enough for the sink. Kafka's producer refuses a larger one, and Spark's
 * sink then fails the query, at each start again.
 *
 * <p>It reckons as kafka-clients 3.9 does ({@code AbstractRecords.estimateSizeInBytesUpperBound}): what
 * it lets pass the producer takes.
 */
public final class CheckSize implements Serializable {
    private static final int BATCH_OVERHEAD = 61;
    private static final int RECORD_OVERHEAD = 21;
    private static final int SURELY_FITS = 100_000;
    private static final long CURRENT_MS = 60_000;

    private static final Map<String, TopicLimit> LIMITS = new ConcurrentHashMap<>();

    private final String rules;
    private transient ErrorPolicy policy;
    private transient RowOrdinals turns;
    private transient int limit;
    private transient boolean compressed;
    private transient boolean rowByRow;
    private transient JsonNode json;

    /**
     * @param rules a {@link ErrorPolicy} as JSON, with {@code limit}, {@code compressed}, the
     *     {@code topic} and {@code settings} of the sink, and {@code row_by_row}: whether the row that
     *     was read last is the one that a row here comes from
     */
    public CheckSize(String rules) {
        this.rules = rules;
    }

    /**
     * @param value the value's length; -1 for null
     * @param key the key's length; -1 for null
     * @param sink the sink's topic; null for the only one
     * @param topic where the row comes from; null if it does not say
     */
    public boolean fits(
            int value, int key, ArrayData headers, UTF8String sink, UTF8String topic, int partition, long offset) {
        if (policy == null) begin();
        long size = BATCH_OVERHEAD + RECORD_OVERHEAD + part(key) + part(value) + headers(headers);
        if (size <= SURELY_FITS && size <= limit) return true;
        int most = Math.min(limit, topicLimit(sink == null ? json.get("topic").asText() : sink.toString()));
        if (size <= most) return true;
        RecordPosition position = topic == null ? (rowByRow ? InFlightOffsets.last() : null)
                : new RecordPosition(topic.toString(), partition, offset);
        if (position != null) {
            turns.next(UTF8String.fromString(position.topic()), position.partition(), position.offset());
        }
        policy.apply("ROW_TOO_LARGE", DeadLetter.of(position,
                "TOO_LARGE: the row makes a record of " + size + " bytes, and the sink takes " + most), turns.ordinal());
        return false;
    }

    private void begin() {
        json = ErrorPolicy.read(rules);
        limit = json.get("limit").asInt();
        compressed = json.get("compressed").asBoolean();
        rowByRow = json.get("row_by_row").asBoolean();
        policy = ErrorPolicy.forThisTask(json, "sink");
        turns = new RowOrdinals();
    }

    private record TopicLimit(int bytes, long asked) {}

    /** What the topic takes; it counts what was compressed, so then only the producer's limit is known. */
    private int topicLimit(String topic) {
        if (compressed) return Integer.MAX_VALUE;
        JsonNode settings = json.get("settings");
        long now = System.currentTimeMillis();
        String key = settings.path("bootstrap.servers").asText() + "/" + topic;
        TopicLimit known = LIMITS.get(key);
        if (known == null || now - known.asked() > CURRENT_MS) {
            int told = KafkaClients.largestMessage(DeadLetterTopics.settings(settings), topic);
            known = new TopicLimit(told > 0 ? told : Integer.MAX_VALUE, now);
            LIMITS.put(key, known);
        }
        return known.bytes();
    }

    private static long headers(ArrayData headers) {
        int count = headers == null ? 0 : headers.numElements();
        long size = varint(count);
        for (int i = 0; i < count; i++) {
            InternalRow header = headers.getStruct(i, 2);
            size += part(header.getUTF8String(0).numBytes());
            size += part(header.isNullAt(1) ? -1 : header.getBinary(1).length);
        }
        return size;
    }

    /** A length and the bytes it counts. */
    private static long part(int length) {
        return length < 0 ? 1 : (long) varint(length) + length;
    }

    /** How many bytes Kafka's signed numbers of variable length take. */
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
