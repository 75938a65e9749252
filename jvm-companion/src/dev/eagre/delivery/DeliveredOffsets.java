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
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;

/**
 * The identities found in the output: for each source partition, the exact set of offsets and ordinals.
 * The highest offset is not enough, because expired batches and rows with several results leave gaps.
 */
public final class DeliveredOffsets implements Externalizable {
    private final Map<String, Map<Integer, PartitionResults>> positions = new HashMap<>();

    /** For deserialization, and for a first run. */
    public DeliveredOffsets() {}

    public boolean isEmpty() {
        return positions.isEmpty();
    }

    /** Whether an identity was delivered. */
    public boolean contains(String topic, int partition, long offset, int ordinal) {
        if (positions.isEmpty()) return false;
        Map<Integer, PartitionResults> partitions = positions.get(topic);
        PartitionResults results = partitions == null ? null : partitions.get(partition);
        return results != null && results.contains(offset, ordinal);
    }

    /** Adds an identity. */
    void add(String topic, int partition, long offset, int ordinal) {
        positions.computeIfAbsent(topic, t -> new HashMap<>())
                .computeIfAbsent(partition, p -> new PartitionResults())
                .add(offset, ordinal);
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
        return all().mapToLong(PartitionResults::size).sum();
    }

    private Stream<PartitionResults> all() {
        return positions.values().stream().flatMap(partitions -> partitions.values().stream());
    }

    /** Merges the highest offset of each source partition into {@code highest}. */
    void reach(Map<String, Map<Integer, Long>> highest) {
        positions.forEach((name, partitions) -> {
            String topic = name.substring(name.lastIndexOf(' ') + 1);
            Map<Integer, Long> merged = highest.computeIfAbsent(topic, t -> new HashMap<>());
            partitions.forEach((partition, results) -> merged.merge(partition, results.highest(), Math::max));
        });
    }

    /**
     * A negative control for the exactly-once tests, which must detect it: fills all gaps up to the highest
     * offset of each source partition.
     */
    DeliveredOffsets fillGaps() {
        all().forEach(PartitionResults::fillGaps);
        return this;
    }

    @Override
    public void writeExternal(ObjectOutput out) throws IOException {
        out.writeInt(positions.size());
        for (Map.Entry<String, Map<Integer, PartitionResults>> topic : positions.entrySet()) {
            out.writeUTF(topic.getKey());
            out.writeInt(topic.getValue().size());
            for (Map.Entry<Integer, PartitionResults> partition : topic.getValue().entrySet()) {
                out.writeInt(partition.getKey());
                partition.getValue().write(out);
            }
        }
    }

    @Override
    public void readExternal(ObjectInput in) throws IOException {
        for (int topics = in.readInt(); topics > 0; topics--) {
            Map<Integer, PartitionResults> partitions = new HashMap<>();
            positions.put(in.readUTF(), partitions);
            for (int count = in.readInt(); count > 0; count--) {
                partitions.put(in.readInt(), PartitionResults.read(in));
            }
        }
    }
}
