package dev.eagre.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

class RowOrdinalsTest {
    private final RowOrdinals ordinals = new RowOrdinals();

    private int next(String topic, int partition, long offset) {
        ordinals.next(UTF8String.fromString(topic), partition, offset);
        return ordinals.ordinal();
    }

    @Test
    void rowsOfOneRecordAreNumbered() {
        List<Integer> numbers = new ArrayList<>();
        for (int i = 0; i < 3; i++) numbers.add(next("in", 0, 5));
        assertEquals(List.of(0, 1, 2), numbers);
    }

    @Test
    void anotherRecordStartsAtZero() {
        next("in", 0, 5);
        next("in", 0, 5);
        assertEquals(0, next("in", 0, 6), "offset");
        assertEquals(0, next("in", 1, 6), "partition");
        assertEquals(0, next("other", 1, 6), "topic");
        assertEquals(1, next("other", 1, 6));
    }

    @Test
    void theFirstRecordOfATopicIsNotMistakenForAnEarlierOne() {
        assertEquals(0, next("in", 0, 0));
        assertEquals("in", ordinals.topic());
    }

    @Test
    void thePositionIsThatOfTheLastRow() {
        next("in", 3, Long.MAX_VALUE);
        assertEquals("in/3/" + Long.MAX_VALUE, ordinals.topic() + "/" + ordinals.partition() + "/" + ordinals.offset());
    }

    /** Spark passes the next row in the memory of the previous one. */
    @Test
    void theTopicIsCopied() {
        byte[] memory = "row in".getBytes(StandardCharsets.UTF_8);
        ordinals.next(UTF8String.fromBytes(memory, 4, 2), 0, 1);
        memory[4] = 'x';
        assertEquals(1, next("in", 0, 1));
        assertEquals("in", ordinals.topic());
    }
}
