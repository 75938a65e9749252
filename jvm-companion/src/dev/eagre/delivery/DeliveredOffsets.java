package dev.eagre.delivery;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Externalizable;
import java.io.IOException;
import java.io.ObjectInput;
import java.io.ObjectInputStream;
import java.io.ObjectOutput;
import java.io.ObjectOutputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.roaringbitmap.longlong.Roaring64Bitmap;

/**
 * The identities found in the output: for each source partition and ordinal, the exact set of offsets.
 * The highest offset is not enough, because expired batches and rows with several results leave gaps.
 */
public final class DeliveredOffsets implements Externalizable {
    private final Map<String, Map<Integer, List<Roaring64Bitmap>>> positions = new HashMap<>();

    /** For deserialization, and for a first run. */
    public DeliveredOffsets() {}

    public boolean isEmpty() {
        return positions.isEmpty();
    }

    /** Whether an identity was delivered. */
    public boolean contains(String topic, int partition, long offset, int ordinal) {
        if (positions.isEmpty()) return false;
        Map<Integer, List<Roaring64Bitmap>> partitions = positions.get(topic);
        List<Roaring64Bitmap> ordinals = partitions == null ? null : partitions.get(partition);
        return ordinals != null && ordinal < ordinals.size() && ordinals.get(ordinal).contains(offset);
    }

    /** Adds an identity. */
    void add(String topic, int partition, long offset, int ordinal) {
        List<Roaring64Bitmap> ordinals = positions
                .computeIfAbsent(topic, t -> new HashMap<>())
                .computeIfAbsent(partition, p -> new ArrayList<>());
        while (ordinals.size() <= ordinal) ordinals.add(new Roaring64Bitmap());
        ordinals.get(ordinal).addLong(offset);
    }

    /** Serializes the set as text, for the JSON in a plan. */
    String toText() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            writeExternal(out);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }

    /** Deserializes the result of {@link #toText}. */
    public static DeliveredOffsets fromText(String text) {
        DeliveredOffsets offsets = new DeliveredOffsets();
        if (text.isEmpty()) return offsets;
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(Base64.getDecoder().decode(text)))) {
            offsets.readExternal(in);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return offsets;
    }

    /** The number of identities. */
    public long size() {
        return positions.values().stream()
                .flatMap(partitions -> partitions.values().stream())
                .flatMap(List::stream)
                .mapToLong(Roaring64Bitmap::getLongCardinality)
                .sum();
    }

    /** Merges the highest offset of each source partition into {@code highest}. */
    void reach(Map<String, Map<Integer, Long>> highest) {
        positions.forEach((name, partitions) -> {
            String topic = name.substring(name.lastIndexOf(' ') + 1);
            partitions.forEach((partition, ordinals) -> ordinals.stream()
                    .filter(set -> !set.isEmpty())
                    .forEach(set -> highest.computeIfAbsent(topic, t -> new HashMap<>())
                            .merge(partition, set.last(), Math::max)));
        });
    }

    /**
     * A negative control for the exactly-once tests, which must detect it: fills all gaps up to the highest
     * offset of each source partition.
     */
    DeliveredOffsets fillGaps() {
        positions.values().forEach(partitions -> partitions.values().forEach(ordinals -> ordinals.forEach(set -> {
            if (!set.isEmpty()) set.addRange(set.first(), set.last() + 1);
        })));
        return this;
    }

    @Override
    public void writeExternal(ObjectOutput out) throws IOException {
        out.writeInt(positions.size());
        for (Map.Entry<String, Map<Integer, List<Roaring64Bitmap>>> topic : positions.entrySet()) {
            out.writeUTF(topic.getKey());
            out.writeInt(topic.getValue().size());
            for (Map.Entry<Integer, List<Roaring64Bitmap>> partition : topic.getValue().entrySet()) {
                out.writeInt(partition.getKey());
                out.writeInt(partition.getValue().size());
                for (Roaring64Bitmap set : partition.getValue()) {
                    set.runOptimize();
                    set.serialize(out);
                }
            }
        }
    }

    @Override
    public void readExternal(ObjectInput in) throws IOException {
        for (int topics = in.readInt(); topics > 0; topics--) {
            Map<Integer, List<Roaring64Bitmap>> partitions = new HashMap<>();
            positions.put(in.readUTF(), partitions);
            for (int count = in.readInt(); count > 0; count--) {
                List<Roaring64Bitmap> ordinals = new ArrayList<>();
                partitions.put(in.readInt(), ordinals);
                for (int sets = in.readInt(); sets > 0; sets--) {
                    Roaring64Bitmap set = new Roaring64Bitmap();
                    set.deserialize(in);
                    ordinals.add(set);
                }
            }
        }
    }
}
