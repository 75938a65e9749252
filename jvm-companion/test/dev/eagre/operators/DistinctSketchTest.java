package dev.eagre.operators;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class DistinctSketchTest {
    private static final long SEED = 1;

    private static List<Long> hashes(int count) {
        Random random = new Random(SEED);
        List<Long> hashes = new ArrayList<>();
        for (int i = 0; i < count; i++) hashes.add(random.nextLong());
        return hashes;
    }

    private static DistinctSketch of(List<Long> hashes) {
        return hashes.stream().map(DistinctSketch::of).reduce(DistinctSketch::with).orElseThrow();
    }

    private static byte[] bytes(DistinctSketch sketch) {
        return StateLayout.write(sketch::write);
    }

    @Test
    void fewValuesAreCountedExactly() {
        for (int count : new int[] {1, 2, 100, DistinctSketch.MOST - 1}) assertEquals(count, of(hashes(count)).estimate());
    }

    @Test
    void duplicatesAreNotCounted() {
        List<Long> twice = new ArrayList<>(hashes(100));
        twice.addAll(hashes(100));
        assertEquals(100, of(twice).estimate());
    }

    @Test
    void manyValuesAreEstimated() {
        for (int count : new int[] {1_000, 20_000}) {
            double estimate = of(hashes(count)).estimate();
            assertEquals(count, estimate, 0.2 * count, "three standard errors");
        }
    }

    @Test
    void sketchesAreMergedInAnyOrder() {
        List<Long> hashes = hashes(2_000);
        DistinctSketch whole = of(hashes);
        DistinctSketch parts = of(hashes.subList(1_200, 2_000)).with(of(hashes.subList(0, 1_500)));
        Collections.shuffle(hashes, new Random(SEED));
        assertArrayEquals(bytes(whole), bytes(parts));
        assertArrayEquals(bytes(whole), bytes(of(hashes)));
    }

    @Test
    void hashesAreComparedAsUnsignedNumbers() {
        DistinctSketch sketch = of(List.of(-1L, 0L, Long.MIN_VALUE, Long.MAX_VALUE));
        assertArrayEquals(bytes(of(List.of(0L, Long.MAX_VALUE, Long.MIN_VALUE, -1L))), bytes(sketch));
        assertEquals(4, sketch.estimate());
    }

    @Test
    void theSizeIsBounded() {
        assertEquals(1 + 2 + 8 * DistinctSketch.MOST, bytes(of(hashes(5_000))).length);
    }

    @Test
    void sketchesSurviveSerialization() {
        for (int count : new int[] {1, 255, 256, 3_000}) {
            DistinctSketch sketch = of(hashes(count));
            DistinctSketch back = StateLayout.read(bytes(sketch), "test", DistinctSketch::read);
            assertArrayEquals(bytes(sketch), bytes(back));
            assertEquals(sketch.estimate(), back.estimate());
        }
    }

    @Test
    void smallHashesGiveNoNegativeEstimate() {
        List<Long> small = new ArrayList<>();
        for (long i = 0; i < 300; i++) small.add(i);
        assertTrue(of(small).estimate() >= DistinctSketch.MOST);
    }
}
