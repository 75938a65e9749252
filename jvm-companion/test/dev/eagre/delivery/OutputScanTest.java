package dev.eagre.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;

class OutputScanTest {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    private final MockConsumer<byte[], byte[]> consumer = new MockConsumer<>(OffsetResetStrategy.EARLIEST);

    /** A record of the output with headers: names and values in turn. */
    private void record(int partition, long offset, String... headers) {
        RecordHeaders all = new RecordHeaders();
        for (int i = 0; i < headers.length; i += 2) {
            byte[] value = headers[i + 1] == null ? null : headers[i + 1].getBytes(StandardCharsets.UTF_8);
            all.add(headers[i], value);
        }
        consumer.schedulePollTask(() -> consumer.addRecord(new ConsumerRecord<>("out", partition, offset, 0L,
                TimestampType.CREATE_TIME, 0, 0, new byte[0], new byte[0], all, Optional.empty())));
    }

    /** A result of the pipeline, written by the given incarnation of it. */
    private void result(int partition, long offset, int incarnation, String identity) {
        record(partition, offset, "eagre", "score " + incarnation + " " + identity + " 123");
    }

    private DeliveredOffsets read(OutputScan scan, long... ends) {
        StringBuilder starts = new StringBuilder();
        StringBuilder until = new StringBuilder();
        for (int i = 0; i < ends.length; i++) {
            starts.append(i == 0 ? "" : ",").append("\"").append(i).append("\":0");
            until.append(i == 0 ? "" : ",").append("\"").append(i).append("\":").append(ends[i]);
            consumer.updateBeginningOffsets(Map.of(new TopicPartition("out", i), 0L));
        }
        return assertTimeoutPreemptively(LIMIT,
                () -> scan.readFrom(consumer, "{\"out\":{" + starts + "}}", "{\"out\":{" + until + "}}"));
    }

    private static OutputScan scan(int incarnation, String committed) {
        return new OutputScan(OutputScan.IDENTITY, "score", incarnation, committed);
    }

    @Test
    void identitiesInHeadersAreFound() {
        result(0, 0, 1, "in/0/10/0");
        record(0, 1, "other", "x", "eagre", "score 1 in/3/11/2 123");
        DeliveredOffsets delivered = read(scan(0, "{}"), 2);
        assertEquals(2, delivered.size());
        assertTrue(delivered.contains("in", 0, 10, 0));
        assertTrue(delivered.contains("in", 3, 11, 2));
    }

    @Test
    void recordsOfOtherPipelinesAndOtherHeadersAreIgnored() {
        record(0, 0, "eagre", "another 1 in/0/10/0 123");
        record(0, 1, "eagre-letter", "score 1 in/0/11/0 site");
        record(0, 2, "eagre", null);
        record(0, 3, "eagre", "score");
        record(0, 4);
        assertTrue(read(scan(0, "{}"), 5).isEmpty());
    }

    @Test
    void committedRowsAreNotStored() {
        result(0, 0, 1, "in/0/9/0");
        result(0, 1, 1, "in/0/10/0");
        result(0, 2, 1, "in/1/9/0");
        DeliveredOffsets delivered = read(scan(0, "{\"in\":{\"0\":10}}"), 3);
        assertFalse(delivered.contains("in", 0, 9, 0));
        assertTrue(delivered.contains("in", 0, 10, 0), "read again from this offset on");
        assertTrue(delivered.contains("in", 1, 9, 0), "this partition has no commit");
    }

    /** Results written after the fence of a later run do not count. */
    @Test
    void resultsOfAFencedProcessDoNotCount() {
        result(0, 0, 1, "in/0/1/0");
        record(0, 1, "eagre-fence", "score 2");
        result(0, 2, 1, "in/0/2/0");
        result(0, 3, 2, "in/0/3/0");
        result(1, 0, 1, "in/0/4/0");
        DeliveredOffsets delivered = read(scan(1, "{}"), 4, 1);
        assertTrue(delivered.contains("in", 0, 1, 0), "written before the fence");
        assertFalse(delivered.contains("in", 0, 2, 0), "written after the fence");
        assertTrue(delivered.contains("in", 0, 3, 0));
        assertTrue(delivered.contains("in", 0, 4, 0), "the fence is not in this partition");
    }

    @Test
    void olderFencesAndFencesOfOtherPipelinesAreIgnored() {
        record(0, 0, "eagre-fence", "score 3");
        record(0, 1, "eagre-fence", "score 2");
        record(0, 2, "eagre-fence", "another 9");
        result(0, 3, 2, "in/0/1/0");
        result(0, 4, 3, "in/0/2/0");
        DeliveredOffsets delivered = read(scan(1, "{}"), 5);
        assertFalse(delivered.contains("in", 0, 1, 0));
        assertTrue(delivered.contains("in", 0, 2, 0));
    }

    @Test
    void theScanStartsWithTheGivenFence() {
        result(0, 0, 4, "in/0/1/0");
        result(0, 1, 5, "in/0/2/0");
        DeliveredOffsets delivered = read(scan(5, "{}"), 2);
        assertFalse(delivered.contains("in", 0, 1, 0));
        assertTrue(delivered.contains("in", 0, 2, 0));
    }

    @Test
    void deadLettersAreIdentifiedBySite() {
        record(0, 0, "eagre-letter", "score 1 in/0/1/0 parse_it");
        DeliveredOffsets delivered = read(new OutputScan(OutputScan.DEAD_LETTER, "score", 0, "{}"), 1);
        assertTrue(delivered.contains("parse_it in", 0, 1, 0));
        assertFalse(delivered.contains("in", 0, 1, 0));
    }

    @Test
    void recordsAfterTheEndAreNotRead() {
        result(0, 0, 1, "in/0/1/0");
        result(0, 1, 1, "in/0/2/0");
        assertEquals(1, read(scan(0, "{}"), 1).size());
    }

    @Test
    void anEmptyRangeIsReadImmediately() {
        assertTrue(read(scan(0, "{}"), 0, 0).isEmpty());
    }

    @Test
    void invalidOffsetsAreReported() {
        Exception error = assertThrows(IllegalArgumentException.class, () -> scan(0, "{broken"));
        assertEquals("not valid offsets: {broken", error.getMessage());
    }
}
