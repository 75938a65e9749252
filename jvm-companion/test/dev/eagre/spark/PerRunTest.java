package dev.eagre.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class PerRunTest {
    private final List<StringBuilder> forgotten = new ArrayList<>();
    private final PerRun<StringBuilder> values = new PerRun<>(StringBuilder::new, forgotten::add);

    @Test
    void eachRunHasOneValue() {
        assertSame(values.of("a"), values.of("a"));
        assertNotSame(values.of("a"), values.of("b"));
        assertSame(values.of("a"), values.find("a"));
        assertNull(values.find("c"));
        assertEquals(2, values.all().size());
    }

    @Test
    void theRunsThatWereUsedLastAreRetained() {
        StringBuilder old = values.of("old");
        StringBuilder used = values.of("used");
        for (int i = 0; i < PerRun.MAX_RUNS - 1; i++) {
            values.of("run " + i);
            values.of("used");
        }
        assertNull(values.find("old"));
        assertSame(used, values.find("used"));
        assertEquals(List.of(old), forgotten);
    }
}
