package dev.eagre.python.codec;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Objects;

/** A growing little-endian buffer for messages to and from a worker. */
public final class WireBuffer {
    private static final VarHandle SHORT = view(short[].class);
    private static final VarHandle INT = view(int[].class);
    private static final VarHandle LONG = view(long[].class);

    public byte[] bytes;
    public int position;
    public int limit;

    public WireBuffer(int capacity) {
        bytes = new byte[capacity];
    }

    /** Empties the buffer and retains its memory. */
    public void clear() {
        position = 0;
        limit = 0;
    }

    /** The position of the next byte to write. */
    public int size() {
        return limit;
    }

    /** Reserves zero bytes and returns their position. */
    public int reserve(int count) {
        int start = limit;
        ensure(count);
        Arrays.fill(bytes, start, start + count, (byte) 0);
        limit = start + count;
        return start;
    }

    public void ensure(int count) {
        int needed = Math.addExact(limit, count);
        if (needed > bytes.length) bytes = Arrays.copyOf(bytes, Math.max(needed, bytes.length * 2));
    }

    void setByte(int at, int value) {
        bytes[at] = (byte) value;
    }

    void setShort(int at, short value) {
        SHORT.set(bytes, at, value);
    }

    public void setInt(int at, int value) {
        INT.set(bytes, at, value);
    }

    void setLong(int at, long value) {
        LONG.set(bytes, at, value);
    }

    public void putByte(int value) {
        setByte(reserve(1), value);
    }

    public void putInt(int value) {
        setInt(reserve(4), value);
    }

    public void putLong(long value) {
        setLong(reserve(8), value);
    }

    void put(byte[] source) {
        put(source, 0, source.length);
    }

    void put(byte[] source, int offset, int count) {
        ensure(count);
        System.arraycopy(source, offset, bytes, limit, count);
        limit += count;
    }

    /** Writes the length of the bytes, then the bytes. */
    public void putBlock(byte[] source) {
        putInt(source.length);
        put(source);
    }

    public void putText(String text) {
        putBlock(text.getBytes(StandardCharsets.UTF_8));
    }

    short shortAt(int at) {
        return (short) SHORT.get(bytes, at);
    }

    int intAt(int at) {
        return (int) INT.get(bytes, at);
    }

    long longAt(int at) {
        return (long) LONG.get(bytes, at);
    }

    /** Rejects a range outside the message: after its end are bytes of earlier messages. */
    int require(int at, int count) {
        return Objects.checkFromIndexSize(at, count, limit);
    }

    public int takeByte() {
        return bytes[step(1)] & 0xff;
    }

    public int takeInt() {
        return intAt(step(4));
    }

    public long takeLong() {
        return longAt(step(8));
    }

    public byte[] take(int count) {
        int start = step(count);
        return Arrays.copyOfRange(bytes, start, position);
    }

    private int step(int count) {
        int start = require(position, count);
        position = start + count;
        return start;
    }

    /** Reads bytes that follow their length. */
    public byte[] takeBlock() {
        return take(takeInt());
    }

    public String takeText() {
        return new String(takeBlock(), StandardCharsets.UTF_8);
    }

    private static VarHandle view(Class<?> array) {
        return MethodHandles.byteArrayViewVarHandle(array, ByteOrder.LITTLE_ENDIAN);
    }
}
