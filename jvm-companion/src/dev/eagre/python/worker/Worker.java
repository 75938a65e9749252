package dev.eagre.python.worker;

import dev.eagre.python.codec.WireBuffer;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;

/** A Python process that runs functions; each message is preceded by its length. */
public final class Worker implements Closeable {
    private static final int HEAD = 4;

    final String key;
    long idleSince;

    private final SocketChannel channel;
    private final long timeoutNanos;
    private final ByteBuffer in = ByteBuffer.allocateDirect(1 << 16).order(ByteOrder.LITTLE_ENDIAN);
    private final ByteBuffer out = ByteBuffer.allocateDirect(1 << 16);
    private final WireBuffer received = new WireBuffer(1 << 12);
    private final ProcessHandle process;

    private volatile long waitingSince;
    private volatile boolean late;

    Worker(String key, SocketChannel channel, WireBuffer hello, long timeoutNanos) throws IOException {
        this.key = key;
        this.channel = channel;
        this.timeoutNanos = timeoutNanos;
        in.flip();
        send(hello);
        WireBuffer answer = receive();
        boolean failed = answer.takeByte() != 0;
        process = ProcessHandle.of(answer.takeLong()).orElse(null);
        if (failed) {
            close();
            throw new LoadFailed(new String(answer.take(answer.limit - answer.position), StandardCharsets.UTF_8));
        }
    }

    /** Begins a message: reserves space for its length. */
    public static void begin(WireBuffer message) {
        message.clear();
        message.reserve(HEAD);
    }

    /** Sends a complete message that was started with {@link #begin}. */
    public void send(WireBuffer message) throws IOException {
        message.setInt(0, message.size() - HEAD);
        int at = 0;
        while (at < message.size()) {
            int count = Math.min(out.capacity(), message.size() - at);
            out.clear();
            out.put(message.bytes, at, count).flip();
            while (out.hasRemaining()) {
                channel.write(out);
            }
            at += count;
        }
    }

    /** Starts the time limit. */
    public void waiting() {
        waitingSince = System.nanoTime() | 1;
    }

    /** Stops the time limit. */
    public void answered() {
        waitingSince = 0;
    }

    /** Waits for a message, which is valid until the next one. */
    public WireBuffer receive() throws IOException {
        fill(HEAD);
        int remaining = in.getInt();
        received.clear();
        received.ensure(remaining);
        received.limit = remaining;
        int at = 0;
        while (remaining > 0) {
            fill(1);
            int count = Math.min(remaining, in.remaining());
            in.get(received.bytes, at, count);
            at += count;
            remaining -= count;
        }
        return received;
    }

    private void fill(int needed) throws IOException {
        while (in.remaining() < needed) {
            in.compact();
            int count = channel.read(in);
            in.flip();
            if (count < 0) throw new EOFException("the worker has exited");
        }
    }

    /** Called by the watchdog: kills a worker that has not responded within its limit. */
    void enforceLimit(long now) {
        long since = waitingSince;
        if (since != 0 && now - since > timeoutNanos) {
            late = true;
            close();
        }
    }

    /** Describes why the communication with the worker failed. */
    public String failure() {
        return late
                ? "did not return within " + timeoutNanos / 1_000_000 + " ms"
                : "ended its Python process";
    }

    boolean alive() {
        return process != null && process.isAlive();
    }

    /** Closes the connection, so that the worker exits by itself. */
    void disconnect() {
        try {
            channel.close();
        } catch (IOException error) {
            // The connection is not used any more, closed or not.
        }
    }

    /** Kills the worker. */
    @Override
    public void close() {
        disconnect();
        if (process != null) process.destroyForcibly();
    }

    /** The function could not be loaded in the worker. */
    static final class LoadFailed extends IOException {
        LoadFailed(String reason) {
            super(reason);
        }
    }
}
