package dev.eagre.deadletter;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.eagre.commit.RecordPosition;
import dev.eagre.spark.Tasks;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class TaskDeadLettersTest {
    /** No producer starts with this address, so that each dead letter is lost immediately. */
    private static final String NOWHERE =
            "{\"topic\":\"in.dlq\",\"suffix\":\".dlq\",\"clusters\":{\"in\":{\"bootstrap.servers\":\"no-port\"}}}";

    private static void send(UUID run) throws Exception {
        TaskDeadLetters letters =
                new TaskDeadLetters("twice", new DeadLetterTopics(new ObjectMapper().readTree(NOWHERE)));
        SourceRecord original = new SourceRecord(null, new byte[] {1}, List.of());
        Tasks.in(Tasks.task(run), () ->
                letters.send(DeadLetter.of(new RecordPosition("in", 0, 1), "UNPARSABLE: no", original)));
    }

    /** Otherwise a dead letter that one query loses stops the commits of another of the same pipeline. */
    @Test
    void aRunHasLostOnlyItsDeadLetters() throws Exception {
        UUID losing = UUID.randomUUID();
        UUID other = UUID.randomUUID();
        send(losing);
        assertEquals(1, TaskDeadLetters.lost(losing));
        assertEquals(0, TaskDeadLetters.lost(other));
    }
}
