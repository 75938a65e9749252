package dev.eagre.operators;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;

/**
 * Estimates the number of distinct values by the {@value #MOST} smallest hashes. It is exact below that
 * number, then within about 6 % (one standard error, 1/√(k−2)). Sketches can be merged in any order.
 */
final class DistinctSketch {
    static final int MOST = 256;

    /** In ascending order, unsigned. */
    private final long[] hashes;

    private DistinctSketch(long[] hashes) {
        this.hashes = hashes;
    }

    static DistinctSketch of(long hash) {
        return new DistinctSketch(new long[] {hash});
    }

    DistinctSketch with(DistinctSketch other) {
        long[] all = new long[Math.min(MOST, hashes.length + other.hashes.length)];
        int size = 0;
        for (int a = 0, b = 0; size < MOST && (a < hashes.length || b < other.hashes.length); size++) {
            int order = a == hashes.length ? 1
                    : b == other.hashes.length ? -1 : Long.compareUnsigned(hashes[a], other.hashes[b]);
            all[size] = order <= 0 ? hashes[a] : other.hashes[b];
            if (order <= 0) a++;
            if (order >= 0) b++;
        }
        return new DistinctSketch(size == all.length ? all : java.util.Arrays.copyOf(all, size));
    }

    long estimate() {
        if (hashes.length < MOST) return hashes.length;
        double share = (hashes[MOST - 1] >>> 11) * 0x1.0p-53;
        return Math.round((MOST - 1) / share);
    }

    static DistinctSketch read(DataInputStream in) throws IOException {
        long[] hashes = new long[in.readUnsignedShort()];
        for (int i = 0; i < hashes.length; i++) hashes[i] = in.readLong();
        return new DistinctSketch(hashes);
    }

    void write(DataOutputStream out) throws IOException {
        out.writeShort(hashes.length);
        for (long hash : hashes) out.writeLong(hash);
    }
}
