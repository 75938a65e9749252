package dev.eagre.python.codec;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WireBufferTest {
    private static byte[] written(WireBuffer wire) {
        return Arrays.copyOf(wire.bytes, wire.size());
    }

    @Test
    void numbersAreLittleEndian() {
        WireBuffer wire = new WireBuffer(0);
        wire.putByte(0xab);
        wire.putInt(0x01020304);
        wire.putLong(0x0102030405060708L);
        wire.setShort(wire.reserve(2), (short) 0x0102);
        assertArrayEquals(new byte[] {(byte) 0xab, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1, 2, 1}, written(wire));
    }

    @Test
    void valuesAreReadInTheOrderWritten() {
        WireBuffer wire = new WireBuffer(1);
        wire.putByte(255);
        wire.putInt(Integer.MIN_VALUE);
        wire.putLong(Long.MIN_VALUE);
        wire.putText("Zürich 🌊");
        wire.putBlock(new byte[0]);
        assertEquals(255, wire.takeByte());
        assertEquals(Integer.MIN_VALUE, wire.takeInt());
        assertEquals(Long.MIN_VALUE, wire.takeLong());
        assertEquals("Zürich 🌊", wire.takeText());
        assertEquals(0, wire.takeBlock().length);
        assertEquals(wire.size(), wire.position);
    }

    @Test
    void growingPreservesTheContent() {
        WireBuffer wire = new WireBuffer(0);
        for (int i = 0; i < 10_000; i++) wire.putInt(i);
        assertEquals(40_000, wire.size());
        for (int i = 0; i < 10_000; i++) assertEquals(i, wire.takeInt());
    }

    @Test
    void reservedBytesAreZeroEvenInReusedMemory() {
        WireBuffer wire = new WireBuffer(8);
        wire.putLong(-1);
        wire.clear();
        assertEquals(0, wire.size());
        assertEquals(0, wire.reserve(8));
        assertEquals(0, wire.longAt(0));
    }

    @Test
    void aPartOfAnArrayCanBeWritten() {
        WireBuffer wire = new WireBuffer(0);
        wire.put(new byte[] {1, 2, 3, 4}, 1, 2);
        assertArrayEquals(new byte[] {2, 3}, written(wire));
    }

    /** Otherwise a text would be written beyond the end of the array. */
    @Test
    void moreThanAnArrayCanHoldIsRefused() {
        WireBuffer wire = new WireBuffer(16);
        wire.limit = Integer.MAX_VALUE - 8;
        assertThrows(ArithmeticException.class, () -> wire.ensure(9));
    }

    @ParameterizedTest
    @ValueSource(ints = {3, 100, Integer.MAX_VALUE, -1, Integer.MIN_VALUE})
    void aBlockWithAWrongLengthIsRefused(int claimed) {
        WireBuffer wire = new WireBuffer(64);
        wire.putInt(claimed);
        wire.put(new byte[] {1, 2});
        assertThrows(IndexOutOfBoundsException.class, wire::takeBlock);
    }

    /** The memory of a message is reused: bytes after its end belong to earlier messages. */
    @Test
    void bytesOfAnEarlierMessageAreNotRead() {
        WireBuffer wire = new WireBuffer(64);
        wire.putLong(1);
        wire.putLong(2);
        wire.clear();
        wire.putInt(7);
        assertEquals(7, wire.takeInt());
        assertThrows(IndexOutOfBoundsException.class, wire::takeByte);
        assertThrows(IndexOutOfBoundsException.class, wire::takeInt);
        assertThrows(IndexOutOfBoundsException.class, wire::takeLong);
        assertThrows(IndexOutOfBoundsException.class, () -> wire.take(1));
        assertEquals(0, wire.take(0).length);
    }
}
