package dev.eagre.operators;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;

/** Serializes an operator's state: the version of the layout, then the operator's data. */
final class StateLayout {
    static final int VERSION = 1;

    private StateLayout() {}

    /** Writes a state. */
    interface Writes {
        void to(DataOutputStream out) throws IOException;
    }

    /** Reads a state. */
    interface Reads<T> {
        T from(DataInputStream in) throws IOException;
    }

    /** Reads a state of one of several layouts. */
    interface VersionedReads<T> {
        T from(DataInputStream in, int version) throws IOException;
    }

    static byte[] write(Writes state) {
        return write(VERSION, state);
    }

    static byte[] write(int version, Writes state) {
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream(128);
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeByte(version);
            state.to(out);
            return bytes.toByteArray();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static <T> T read(byte[] bytes, String operator, Reads<T> reads) {
        return read(bytes, operator, VERSION, (in, version) -> reads.from(in));
    }

    /** Reads a state of any layout up to the newest one. */
    static <T> T read(byte[] bytes, String operator, int newest, VersionedReads<T> reads) {
        try {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
            int version = in.readUnsignedByte();
            if (version < VERSION || version > newest) {
                throw new IllegalStateException("STATE_LAYOUT: the checkpoint holds state of " + operator
                        + " in layout " + version + ", and this release reads layout " + newest
                        + "; run the release that wrote it, or start from scratch with `eagre checkpoint reset`");
            }
            return reads.from(in, version);
        } catch (IOException error) {
            throw new UncheckedIOException("the state of " + operator + " cannot be read", error);
        }
    }

    static void writeBytes(byte[] bytes, DataOutputStream out) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) out.write(bytes);
    }

    static byte[] readBytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 0) return null;
        byte[] bytes = in.readNBytes(length);
        if (bytes.length < length) throw new EOFException();
        return bytes;
    }
}
