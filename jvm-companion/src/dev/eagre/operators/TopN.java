package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.operators.AggregateFunction.Partial;
import dev.eagre.state.EncoderCache;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
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
 * needs only the items on the board; a sum or count needs the score of every item of the open windows.
 */
final class TopN extends Operator<TopN.Boards> {
    private transient int item;
    private transient int most;
    private transient long window;
    private transient long grace;
    private transient long keepsMs;
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
        void read(DataInputStream in) throws IOException {
            super.read(in);
            for (int left = in.readInt(); left > 0; left--) {
                List<Entry> board = boards.computeIfAbsent(in.readLong(), start -> new ArrayList<>());
                for (int more = in.readInt(); more > 0; more--) {
                    board.add(new Entry(in.readUTF(), AggregateFunction.read(scores, in)[0]));
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
                    out.writeUTF(entry.item);
                    AggregateFunction.write(scores, new Partial[] {entry.score}, out);
                }
            }
        }
    }

    @Override
    void open(JsonNode spec) {
        item = spec.get("item").asInt();
        most = spec.get("n").asInt();
        window = spec.get("window").asLong();
        grace = spec.get("grace").asLong();
        keepsMs = spec.get("keeps_ms").asLong();
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
    boolean isLate(Boards state, long at) {
        return state.newest != Long.MIN_VALUE && floor(at, window) + window <= state.newest - grace;
    }

    @Override
    void row(Row group, Boards state, Row row, long at, List<Row> out) {
        while (!state.boards.isEmpty() && state.boards.firstKey() + window <= state.newest - grace) {
            close(state.boards.pollFirstEntry().getKey());
        }
        if (row.isNullAt(item)) return;
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
        Entry old = before.stream().filter(entry -> entry.item.equals(name)).findFirst().orElse(null);
        Partial total = total(start, name, old, row);
        if (total.count == 0) return before;
        Entry mine = new Entry(name, total);
        if (needsAll() && old != null && before.size() == most && compare(mine, old) > 0) return scanned(start);
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
        String prefix = key(start, "");
        List<Entry> ranked = new ArrayList<>();
        Iterator<Tuple2<String, byte[]>> entries = all.iterator();
        while (entries.hasNext()) {
            Tuple2<String, byte[]> entry = entries.next();
            if (!entry._1().startsWith(prefix)) continue;
            Partial total = score(entry._2());
            if (total.count > 0) ranked.add(new Entry(entry._1().substring(prefix.length()), total));
        }
        return best(ranked);
    }

    private List<Entry> best(List<Entry> entries) {
        entries.sort(this::compare);
        return entries.size() > most ? new ArrayList<>(entries.subList(0, most)) : entries;
    }

    /** Orders by score, best first, then by name. */
    private int compare(Entry a, Entry b) {
        Object mine = score.result(a.score);
        Object other = score.result(b.score);
        int order = mine instanceof Long whole ? Long.compare(whole, (Long) other)
                : Double.compare((Double) mine, (Double) other);
        if (order == 0) return a.item.compareTo(b.item);
        return score.kind == AggregateFunction.Kind.MIN ? order : -order;
    }

    private boolean same(Entry a, Entry b) {
        return a.item.equals(b.item) && score.result(a.score).equals(score.result(b.score));
    }

    private void close(long start) {
        if (!needsAll()) return;
        String prefix = key(start, "");
        List<String> old = new ArrayList<>();
        Iterator<String> names = all.keys();
        while (names.hasNext()) {
            String name = names.next();
            if (name.startsWith(prefix)) old.add(name);
        }
        old.forEach(all::removeKey);
    }

    private static String key(long start, String name) {
        return start + "|" + name;
    }

    @Override
    void forget() {
        super.forget();
        if (needsAll()) all.clear();
    }

    @Override
    long keepsMs() {
        return keepsMs;
    }
}
