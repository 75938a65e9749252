package dev.eagre.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

class DeliveredOffsetsTest {
    private static final long SEED = 7;
    private static final int[] ORDINALS = {0, 1, 2, 63, 64, 70_000};

    private final DeliveredOffsets delivered = new DeliveredOffsets();

    @Test
    void containsOnlyAddedPositions() {
        delivered.add("in", 1, 100, 0);
        assertTrue(delivered.contains("in", 1, 100, 0));
        assertFalse(delivered.contains("in", 1, 99, 0));
        assertFalse(delivered.contains("in", 1, 100, 1));
        assertFalse(delivered.contains("in", 0, 100, 0));
        assertFalse(delivered.contains("other", 1, 100, 0));
    }

    @Test
    void anEmptySetContainsNothing() {
        assertTrue(delivered.isEmpty());
        assertEquals(0, delivered.size());
        assertFalse(delivered.contains("in", 0, 0, 0));
    }

    /** Of several results of a row, only some may have been delivered. */
    @Test
    void anOrdinalDoesNotImplyEarlierOnes() {
        delivered.add("in", 0, 5, 3);
        assertEquals(1, delivered.size());
        for (int ordinal = 0; ordinal < 6; ordinal++) {
            assertEquals(ordinal == 3, delivered.contains("in", 0, 5, ordinal), "ordinal " + ordinal);
        }
    }

    /** A set of offsets for each ordinal would take hundreds of megabytes. */
    @Test
    void aMillionResultsOfOneRecordAreSmall() {
        for (int ordinal = 0; ordinal < 1_000_000; ordinal++) {
            if (ordinal != 77 && ordinal != 500_000) delivered.add("in", 0, 5, ordinal);
        }
        String text = delivered.toText();
        assertTrue(text.length() < 10_000, text.length() + " characters");
        DeliveredOffsets copy = DeliveredOffsets.fromText(text);
        assertEquals(999_998, copy.size());
        assertTrue(copy.contains("in", 0, 5, 999_999));
        assertFalse(copy.contains("in", 0, 5, 1_000_000));
        assertFalse(copy.contains("in", 0, 5, 77));
        assertFalse(copy.contains("in", 0, 5, 500_000));
        assertFalse(copy.contains("in", 0, 6, 100));
    }

    @Test
    void addingTwiceChangesNothing() {
        delivered.add("in", 0, 5, 0);
        delivered.add("in", 0, 5, 0);
        assertEquals(1, delivered.size());
    }

    @Test
    void largeOffsetsAreSupported() {
        delivered.add("in", 0, Long.MAX_VALUE, 0);
        delivered.add("in", 0, 1L << 40, 0);
        assertTrue(DeliveredOffsets.fromText(delivered.toText()).contains("in", 0, Long.MAX_VALUE, 0));
        assertTrue(DeliveredOffsets.fromText(delivered.toText()).contains("in", 0, 1L << 40, 0));
    }

    @Test
    void randomPositionsSurviveTextAndSerializationExactly() throws Exception {
        Random random = new Random(SEED);
        Set<String> expected = new HashSet<>();
        for (int i = 0; i < 2000; i++) {
            String topic = random.nextBoolean() ? "in" : "a longer name";
            int partition = random.nextInt(3);
            long offset = random.nextInt(3000);
            int ordinal = ORDINALS[random.nextInt(ORDINALS.length)];
            delivered.add(topic, partition, offset, ordinal);
            expected.add(topic + partition + "/" + offset + "/" + ordinal);
        }
        for (DeliveredOffsets copy : new DeliveredOffsets[] {DeliveredOffsets.fromText(delivered.toText()), serialized(delivered)}) {
            assertEquals(expected.size(), copy.size());
            for (String topic : new String[] {"in", "a longer name"}) {
                for (int partition = 0; partition < 3; partition++) {
                    for (long offset = 0; offset < 3000; offset++) {
                        for (int ordinal : ORDINALS) {
                            String identity = topic + partition + "/" + offset + "/" + ordinal;
                            assertEquals(expected.contains(identity),
                                    copy.contains(topic, partition, offset, ordinal), identity);
                        }
                    }
                }
            }
        }
    }

    private static DeliveredOffsets serialized(DeliveredOffsets delivered) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(delivered);
        }
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
            return (DeliveredOffsets) in.readObject();
        }
    }

    @Test
    void emptyTextIsAnEmptySetAndInvalidTextIsRefused() {
        assertTrue(DeliveredOffsets.fromText("").isEmpty());
        delivered.add("in", 0, 1, 0);
        String text = delivered.toText();
        assertThrows(RuntimeException.class, () -> DeliveredOffsets.fromText("no base64!"));
        assertThrows(RuntimeException.class, () -> DeliveredOffsets.fromText(text.substring(0, text.length() / 2 / 4 * 4)));
    }

    @Test
    void theHighestPositionOfEachPartitionIsStored() {
        delivered.add("in", 0, 5, 0);
        delivered.add("in", 0, 9, 1);
        delivered.add("in", 1, 3, 0);
        delivered.add("score in", 1, 8, 0);
        Map<String, Map<Integer, Long>> highest = new HashMap<>(Map.of("in", new HashMap<>(Map.of(0, 7L, 2, 1L))));
        delivered.reach(highest);
        assertEquals(Map.of("in", Map.of(0, 9L, 1, 8L, 2, 1L)), highest);
    }

    /** The exactly-once tests use it to show that gaps matter. */
    @Test
    void theControlFillsGaps() {
        delivered.add("in", 0, 5, 0);
        delivered.add("in", 0, 9, 0);
        delivered.fillGaps();
        assertEquals(5, delivered.size());
        assertTrue(delivered.contains("in", 0, 7, 0));
        assertFalse(delivered.contains("in", 0, 10, 0));
    }
}
