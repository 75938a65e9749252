package dev.eagre.delivery;

import java.io.IOException;
import java.io.ObjectInput;
import java.io.ObjectOutput;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.roaringbitmap.RoaringBitmap;
import org.roaringbitmap.longlong.Roaring64Bitmap;

/**
 * The delivered results of one source partition: for each ordinal the offsets of the records, and for a record with
 * very many results the ordinals. A set for each of a million ordinals would need hundreds of megabytes.
 */
final class PartitionResults {
    private static final int BY_ORDINAL = 64;

    private final List<Roaring64Bitmap> offsets = new ArrayList<>();
    private final Map<Long, RoaringBitmap> ordinals = new HashMap<>();

    boolean contains(long offset, int ordinal) {
        if (ordinal < BY_ORDINAL) return ordinal < offsets.size() && offsets.get(ordinal).contains(offset);
        RoaringBitmap further = ordinals.get(offset);
        return further != null && further.contains(ordinal);
    }

    void add(long offset, int ordinal) {
        if (ordinal >= BY_ORDINAL) {
            ordinals.computeIfAbsent(offset, record -> new RoaringBitmap()).add(ordinal);
            return;
        }
        while (offsets.size() <= ordinal) offsets.add(new Roaring64Bitmap());
        offsets.get(ordinal).addLong(offset);
    }

    long size() {
        return offsets.stream().mapToLong(Roaring64Bitmap::getLongCardinality).sum()
                + ordinals.values().stream().mapToLong(RoaringBitmap::getLongCardinality).sum();
    }

    /** The highest offset of a record with a delivered result. */
    long highest() {
        long highest = ordinals.keySet().stream().mapToLong(Long::longValue).max().orElse(-1);
        for (Roaring64Bitmap set : offsets) {
            if (!set.isEmpty()) highest = Math.max(highest, set.last());
        }
        return highest;
    }

    /** For the negative control: adds all offsets up to the highest one. */
    void fillGaps() {
        offsets.forEach(set -> {
            if (!set.isEmpty()) set.addRange(set.first(), set.last() + 1);
        });
    }

    void write(ObjectOutput out) throws IOException {
        out.writeInt(offsets.size());
        for (Roaring64Bitmap set : offsets) {
            set.runOptimize();
            set.serialize(out);
        }
        out.writeInt(ordinals.size());
        for (Map.Entry<Long, RoaringBitmap> record : ordinals.entrySet()) {
            out.writeLong(record.getKey());
            record.getValue().runOptimize();
            record.getValue().serialize(out);
        }
    }

    static PartitionResults read(ObjectInput in) throws IOException {
        PartitionResults results = new PartitionResults();
        for (int sets = in.readInt(); sets > 0; sets--) {
            Roaring64Bitmap set = new Roaring64Bitmap();
            set.deserialize(in);
            results.offsets.add(set);
        }
        for (int records = in.readInt(); records > 0; records--) {
            long offset = in.readLong();
            RoaringBitmap further = new RoaringBitmap();
            further.deserialize(in);
            results.ordinals.put(offset, further);
        }
        return results;
    }
}
