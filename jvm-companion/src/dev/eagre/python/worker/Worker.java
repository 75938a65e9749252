package dev.eagre.python.worker;

import dev.eagre.python.codec.WireBuffer;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;

/** One Python process that runs functions; messages go both ways, each behind its length. */
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
            throw new Refused(new String(answer.take(answer.limit - answer.position), StandardCharsets.UTF_8));
        }
    }

    /** Begins a message: room for its length. */
    public static void begin(WireBuffer message) {
        message.clear();
        message.reserve(HEAD);
    }

    /** Sends a message that {@link #begin} began, all of it. */
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

    /** The time limit runs from now. */
    public void waiting() {
        waitingSince = System.nanoTime() | 1;
    }

    /** The time limit does not run. */
    public void answered() {
        waitingSince = 0;
    }

    /** Waits for a message; it is only good until the next one. */
    public WireBuffer receive() throws IOException {
        fill(HEAD);
        int left = in.getInt();
        received.clear();
        received.ensure(left);
        received.limit = left;
        int at = 0;
        while (left > 0) {
            fill(1);
            int count = Math.min(left, in.remaining());
            in.get(received.bytes, at, count);
            at += count;
            left -= count;
        }
        return received;
    }

    private void fill(int least) throws IOException {
        while (in.remaining() < least) {
            in.compact();
            int count = channel.read(in);
            in.flip();
            if (count < 0) throw new EOFException("the worker is gone");
        }
    }

    /** Called by the watchdog: ends a worker that has not answered within its limit. */
    void enforceLimit(long now) {
        long since = waitingSince;
        if (since != 0 && now - since > timeoutNanos) {
            late = true;
            close();
        }
    }

    /** Says why talking to it failed. */
    public String obituary() {
        return late
                ? "did not return within " + timeoutNanos / 1_000_000 + " ms"
                : "ended its Python process";
    }

    boolean alive() {
        return process != null && process.isAlive();
    }

    /** Lets it end by itself. */
    void hangUp() {
        try {
            channel.close();
        } catch (IOException error) {
            // It is of no use any more, closed or not.
        }
    }

    /** Ends it, whatever it is doing. */
    @Override
    public void close() {
        hangUp();
        if (process != null) process.destroyForcibly();
    }

    /** The function could not be loaded in the worker. */
    static final class Refused extends IOException {
        Refused(String reason) {
            super(reason);
        }
    }
}
