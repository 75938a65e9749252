package dev.eagre.deadletter;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.eagre.commit.RecordPosition;
import dev.eagre.metrics.RowCounters;
import java.io.ByteArrayOutputStream;
import java.io.ObjectOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkException;
import org.junit.jupiter.api.Test;
import org.roaringbitmap.longlong.Roaring64Bitmap;

/** Source records, dead letters of earlier runs, and error policies. */
class EarlierDeadLettersTest {
    private static final RecordPosition AT = new RecordPosition("in", 2, 77);

    /** One dead letter as its text: site and topic, partition, offset, ordinal. */
    private static String written(String topic, int partition, long offset, int ordinal) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeInt(1);
            out.writeUTF(topic);
            out.writeInt(1);
            out.writeInt(partition);
            out.writeInt(ordinal + 1);
            for (int i = 0; i <= ordinal; i++) {
                Roaring64Bitmap set = new Roaring64Bitmap();
                if (i == ordinal) set.addLong(offset);
                set.serialize(out);
            }
            out.writeInt(0); // no record with very many results
        }
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }

    private static EarlierDeadLetters memory(String site, String written) throws Exception {
        JsonNode run = new ObjectMapper().valueToTree(Map.of("prefix", "score 3", "written", written));
        return new EarlierDeadLetters(run, site);
    }

    private static JsonNode policy(String onError) {
        return ErrorPolicy.read("{\"pipeline\":\"memory-test\",\"on_error\":\"" + onError + "\",\"dead_letters\":null}");
    }

    @Test
    void aPositionIsTopicPartitionAndOffset() {
        assertEquals("in/2/77", AT.toString());
        assertEquals(AT, new RecordPosition("in", 2, 77));
    }

    @Test
    void aFirstRunHasNoEarlierDeadLetters() throws Exception {
        EarlierDeadLetters memory = memory("parse", "");
        assertTrue(memory.isEmpty());
        assertFalse(memory.holds(AT, 0));
    }

    @Test
    void onlyTheSameRowAtTheSameSiteMatches() throws Exception {
        String written = written("parse_it in", 2, 77, 1);
        EarlierDeadLetters memory = memory("parse it", written);
        assertFalse(memory.isEmpty());
        assertTrue(memory.holds(AT, 1));
        assertFalse(memory.holds(AT, 0));
        assertFalse(memory.holds(new RecordPosition("in", 2, 78), 1));
        assertFalse(memory("score", written).holds(AT, 1), "another function failed");
    }

    @Test
    void identitiesAreInTheFormatOfTheOutputScan() throws Exception {
        assertEquals("score 3 in/2/77/1 parse_it", memory("parse it", "").identity(AT, 1));
    }

    @Test
    void suspectsAreListedOldestFirstAndTheOldestAreRemoved() {
        SuspectRecords first = new SuspectRecords("first").retain();
        first.failed(new RecordPosition("in", 0, 1), new IllegalStateException());
        first.failed(new RecordPosition("in", 0, 2), new IllegalStateException());
        new SuspectRecords("second").retain().failed(AT, new IllegalStateException());
        assertEquals(List.of("first in/0/1", "first in/0/2", "second in/2/77"), suspects());
        for (int i = 0; i < 99; i++) new SuspectRecords("quiet").retain();
        assertEquals(List.of("second in/2/77"), suspects());
        new SuspectRecords("quiet").retain();
        assertEquals(List.of(), suspects());
    }

    private static List<String> suspects() {
        return SuspectRecords.all().stream().map(one -> one[0] + " " + one[1] + "/" + one[2] + "/" + one[3]).toList();
    }

    @Test
    void thePolicyToFailNamesTheRecord() {
        Exception error = assertThrows(SparkException.class,
                () -> new ErrorPolicy(policy("fail"), "site").apply("UNPARSABLE_RECORD", DeadLetter.of(AT, "UNPARSABLE: no"), 0));
        assertEquals("UNPARSABLE_RECORD: UNPARSABLE: no for the record in/2/77", error.getMessage());
    }

    @Test
    void thePolicyToDropCounts() throws Exception {
        ErrorPolicy policy = new ErrorPolicy(policy("drop"), "site");
        policy.apply("UNPARSABLE_RECORD", DeadLetter.of(AT, "UNPARSABLE: no"), 0);
        policy.apply("UNPARSABLE_RECORD", DeadLetter.of(null, "UNPARSABLE: no"), 0);
        assertTrue(RowCounters.all().contains("\"memory-test/dropped\":2"), RowCounters.all());
        assertFalse(policy.needsOrdinals());
        assertFalse(policy.alreadyWritten(AT, 0));
    }

    @Test
    void deadLetterHeadersFollowThoseOfTheRecord() {
        SourceRecord original = new SourceRecord(null, null, List.of(SourceRecord.header("trace", new byte[] {'t'})));
        DeadLetter letter = new DeadLetter(AT, "score: boom", Instant.ofEpochSecond(0), null, null)
                .with(original)
                .withIdentity("score 3 in/2/77/0 site");
        List<String> headers = letter.headers("score", "value").stream()
                .map(one -> one.getKey() + "=" + new String(one.getValue(), StandardCharsets.UTF_8))
                .toList();
        assertEquals(List.of("trace=t", "eagre-pipeline=score", "eagre-reason=score: boom", "eagre-source=in/2/77",
                "eagre-time=1970-01-01T00:00:00Z", "eagre-letter=score 3 in/2/77/0 site", "eagre-lost=value"), headers);
    }

    @Test
    void aDeadLetterTopicBelongsToItsSource() throws Exception {
        DeadLetterTopics address = new DeadLetterTopics(new ObjectMapper().readTree("{\"topic\":\"all.dlq\",\"suffix\":\".dlq\","
                + "\"clusters\":{\"in\":{\"bootstrap.servers\":\"a\"},\"other\":{\"bootstrap.servers\":\"b\"}}}"));
        assertEquals("in.dlq", address.topic("in"));
        assertEquals("all.dlq", address.topic(null));
        assertEquals("in", address.source("in.dlq"));
        assertEquals("plain", address.source("plain"));
        assertEquals(Map.of("bootstrap.servers", "b"), address.settings("other"));
        assertEquals(Map.of("bootstrap.servers", "a"), address.settings("unknown"), "the first source's");
    }
}
