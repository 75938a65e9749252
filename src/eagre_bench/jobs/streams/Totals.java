package dev.eagre.bench.streams;

import java.nio.ByteBuffer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** The state of a card, or of a card's window. */
record Totals(long n, long total, long least, long largest) {
    static final Totals NONE = new Totals(0, 0, Long.MAX_VALUE, Long.MIN_VALUE);
    static final Serde<Totals> SERDE = Serdes.serdeFrom(
            (topic, totals) -> totals == null ? null : totals.bytes(),
            (topic, bytes) -> bytes == null ? null : of(ByteBuffer.wrap(bytes)));

    Totals add(long amount) {
        return new Totals(n + 1, total + amount, Math.min(least, amount), Math.max(largest, amount));
    }

    private static Totals of(ByteBuffer bytes) {
        return new Totals(bytes.getLong(), bytes.getLong(), bytes.getLong(), bytes.getLong());
    }

    private byte[] bytes() {
        return ByteBuffer.allocate(4 * Long.BYTES)
                .putLong(n)
                .putLong(total)
                .putLong(least)
                .putLong(largest)
                .array();
    }
}
