package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.operators.AggregateFunction.Partial;
import dev.eagre.spark.StateScan;
import dev.eagre.state.EncoderCache;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.TreeMap;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * The best items of a group in each window; emits the ranks that a row changes. A minimum or maximum score
 * needs only the items on the board; a sum or count needs the score of every item of the open windows. Null is
 * an item like any other.
 */
final class TopN extends Operator<TopN.Boards> {
    /** Layout 1 had items of up to 65535 bytes, and no null. */
    private static final int LAYOUT = 2;

    private transient int item;
    private transient int most;
    private transient long window;
    private transient long grace;
    private transient long idleMs;
    private transient long retentionMs;
    private transient AggregateFunction score;
    private transient List<AggregateFunction> scores;
    private transient MapState<String, byte[]> all;

    TopN(String spec, int at, int written) {
        super(spec, at, written);
    }

    private record Entry(String item, Partial score) {}

    /** The boards of the open windows, by the window's start. */
    final class Boards extends State {
        final TreeMap<Long, List<Entry>> boards = new TreeMap<>();

        @Override
        void read(DataInputStream in, int layout) throws IOException {
            super.read(in);
            for (int left = in.readInt(); left > 0; left--) {
                List<Entry> board = boards.computeIfAbsent(in.readLong(), start -> new ArrayList<>());
                for (int more = in.readInt(); more > 0; more--) {
                    board.add(new Entry(layout < LAYOUT ? in.readUTF() : readItem(in), AggregateFunction.read(scores, in)[0]));
                }
            }
        }

        @Override
        void write(DataOutputStream out) throws IOException {
            super.write(out);
            out.writeInt(boards.size());
            for (var board : boards.entrySet()) {
                out.writeLong(board.getKey());
                out.writeInt(board.getValue().size());
                for (Entry entry : board.getValue()) {
                    StateLayout.writeBytes(entry.item == null ? null : entry.item.getBytes(StandardCharsets.UTF_8), out);
                    AggregateFunction.write(scores, new Partial[] {entry.score}, out);
                }
            }
        }
    }

    private static String readItem(DataInputStream in) throws IOException {
        byte[] item = StateLayout.readBytes(in);
        return item == null ? null : new String(item, StandardCharsets.UTF_8);
    }

    @Override
    int layout() {
        return LAYOUT;
    }

    @Override
    void open(JsonNode spec) {
        item = spec.get("item").asInt();
        most = spec.get("n").asInt();
        window = spec.get("window").asLong();
        grace = spec.get("grace").asLong();
        idleMs = spec.get("keeps_ms").asLong();
        retentionMs = spec.path("retention_ms").asLong();
        scores = AggregateFunction.all(spec.get("score"));
        score = scores.get(0);
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        super.init(outputMode, timeMode);
        if (needsAll()) {
            all = getHandle()
                    .getMapState(
                            "scores",
                            EncoderCache.of(Encoders.STRING()),
                            EncoderCache.of(Encoders.BINARY()),
                            TTLConfig.NONE());
        }
    }

    private boolean needsAll() {
        return score.kind != AggregateFunction.Kind.MAX && score.kind != AggregateFunction.Kind.MIN;
    }

    @Override
    Boards empty() {
        return new Boards();
    }

    @Override
    boolean isLate(Boards state, Row row, long at) {
        return state.newest != Long.MIN_VALUE && floor(at, window) + window <= state.newest - grace;
    }

    @Override
    void row(Row group, Boards state, Row row, long at, List<Row> out) {
        while (!state.boards.isEmpty() && state.boards.firstKey() + window <= state.newest - grace) {
            close(state.boards.pollFirstEntry().getKey());
        }
        long start = floor(at, window);
        List<Entry> before = state.boards.getOrDefault(start, List.of());
        List<Entry> after = ranked(start, before, row);
        state.boards.put(start, after);
        for (int rank = 0; rank < after.size(); rank++) {
            Entry entry = after.get(rank);
            if (rank >= before.size() || !same(entry, before.get(rank))) {
                out.add(KeyedResults.row(group, start, rank + 1, entry.item, score.result(entry.score),
                        row.get(row.length() - 1)));
            }
        }
    }

    private List<Entry> ranked(long start, List<Entry> before, Row row) {
        String name = row.getString(item);
        Entry old = before.stream().filter(entry -> Objects.equals(entry.item, name)).findFirst().orElse(null);
        Partial total = total(start, name, old, row);
        if (total.count == 0) return before;
        Entry mine = new Entry(name, total);
        if (needsAll() && old != null && before.size() == most && compare(mine, old) > 0) {
            return StateScan.toItsEnd(() -> scanned(start));
        }
        List<Entry> after = new ArrayList<>(before);
        after.remove(old);
        after.add(mine);
        return best(after);
    }

    /** The score of the item including this row. */
    private Partial total(long start, String name, Entry old, Row row) {
        Partial total = new Partial();
        if (needsAll()) {
            byte[] known = all.getValue(key(start, name));
            if (known != null) total = score(known);
        } else if (old != null) {
            score.merge(total, old.score);
        }
        score.add(total, row);
        Partial written = total;
        if (needsAll()) {
            all.updateValue(key(start, name),
                    StateLayout.write(out -> AggregateFunction.write(scores, new Partial[] {written}, out)));
        }
        return total;
    }

    private Partial score(byte[] bytes) {
        return StateLayout.read(bytes, "top_n", in -> AggregateFunction.read(scores, in)[0]);
    }

    private List<Entry> scanned(long start) {
        List<Entry> ranked = new ArrayList<>();
        Iterator<Tuple2<String, byte[]>> entries = all.iterator();
        while (entries.hasNext()) {
            Tuple2<String, byte[]> entry = entries.next();
            if (!isOf(start, entry._1())) continue;
            Partial total = score(entry._2());
            if (total.count > 0) ranked.add(new Entry(item(start, entry._1()), total));
        }
        return best(ranked);
    }

    private List<Entry> best(List<Entry> entries) {
        entries.sort(this::compare);
        return entries.size() > most ? new ArrayList<>(entries.subList(0, most)) : entries;
    }

    /** Orders by score, best first, then by name; null is the first name, as in Spark SQL. */
    private int compare(Entry a, Entry b) {
        Object mine = score.result(a.score);
        Object other = score.result(b.score);
        int order = mine instanceof Long whole ? Long.compare(whole, (Long) other)
                : Double.compare((Double) mine, (Double) other);
        if (order == 0) return Comparator.nullsFirst(Comparator.<String>naturalOrder()).compare(a.item, b.item);
        return score.kind == AggregateFunction.Kind.MIN ? order : -order;
    }

    private boolean same(Entry a, Entry b) {
        return Objects.equals(a.item, b.item) && score.result(a.score).equals(score.result(b.score));
    }

    private void close(long start) {
        if (needsAll()) StateScan.toItsEnd(() -> names(start)).forEach(all::removeKey);
    }

    private List<String> names(long start) {
        List<String> names = new ArrayList<>();
        for (Iterator<String> all = this.all.keys(); all.hasNext(); ) {
            String name = all.next();
            if (isOf(start, name)) names.add(name);
        }
        return names;
    }

    private static String key(long start, String name) {
        return name == null ? start + "~" : start + "|" + name;
    }

    private static boolean isOf(long start, String key) {
        return key.startsWith(key(start, "")) || key.equals(key(start, null));
    }

    private static String item(long start, String key) {
        return key.equals(key(start, null)) ? null : key.substring(key(start, "").length());
    }

    @Override
    void forget() {
        super.forget();
        if (needsAll()) StateScan.toItsEnd(all::clear);
    }

    /** Closes the windows of an idle group: later rows of these windows are late. */
    @Override
    void ring(Row group, Boards state, long now, List<Row> out) {
        if (state.boards.isEmpty() || trusted(state.touched + idleMs) > now) return;
        state.newest = Math.max(state.newest, state.boards.lastKey() + window + grace);
        state.boards.clear();
        if (needsAll()) all.clear();
    }

    @Override
    long due(Boards state) {
        return state.boards.isEmpty() ? super.due(state) : state.touched + idleMs;
    }

    @Override
    long waitsMs() {
        return idleMs;
    }

    /** The time up to which windows are closed is kept for the retention, so that none of them opens again. */
    @Override
    long keepsMs() {
        return Math.max(idleMs, retentionMs);
    }
}
