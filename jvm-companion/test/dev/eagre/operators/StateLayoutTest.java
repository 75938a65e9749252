package dev.eagre.operators;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import org.apache.spark.sql.RowFactory;
import org.junit.jupiter.api.Test;

class StateLayoutTest {
    @Test
    void stateStartsWithItsLayoutVersion() {
        assertArrayEquals(new byte[] {StateLayout.VERSION, 0, 0, 0, 5}, StateLayout.write(out -> out.writeInt(5)));
    }

    @Test
    void stateOfAnotherLayoutIsRefusedWithTheNextStep() {
        Exception error = assertThrows(IllegalStateException.class,
                () -> StateLayout.read(new byte[] {9, 1}, "rolling", in -> in.readByte()));
        assertTrue(error.getMessage().startsWith("STATE_LAYOUT: the checkpoint holds state of rolling in layout 9"));
        assertTrue(error.getMessage().contains("eagre checkpoint reset"));
    }

    @Test
    void bytesSurviveARoundTripEvenIfEmpty() {
        for (byte[] bytes : new byte[][] {null, {}, {1, 2, 3}}) {
            byte[] written = StateLayout.write(out -> StateLayout.writeBytes(bytes, out));
            assertArrayEquals(bytes, StateLayout.read(written, "test", StateLayout::readBytes));
        }
    }

    @Test
    void truncatedStateIsRefused() {
        byte[] whole = StateLayout.write(out -> {
            out.writeLong(1);
            StateLayout.writeBytes(new byte[] {1, 2, 3}, out);
        });
        for (int length = 0; length < whole.length; length++) {
            byte[] cut = Arrays.copyOf(whole, length);
            UncheckedIOException error = assertThrows(UncheckedIOException.class, () -> StateLayout.read(cut, "top_n", in -> {
                in.readLong();
                return StateLayout.readBytes(in);
            }), "cut to " + length);
            assertEquals("the state of top_n cannot be read", error.getMessage());
            assertEquals(EOFException.class, error.getCause().getClass());
        }
    }

    @Test
    void resultsStartWithTheirKey() {
        assertEquals(RowFactory.create("a", 1, 2L, null),
                KeyedResults.row(RowFactory.create("a", 1), 2L, null));
        assertEquals(RowFactory.create(5), KeyedResults.row(RowFactory.create(), 5));
    }
}
