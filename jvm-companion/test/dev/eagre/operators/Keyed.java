package dev.eagre.operators;

import dev.eagre.spark.Tasks;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.QueryInfo;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An operator over the rows of one key, with Spark's state and timers in memory and a clock that the test moves.
 *
 * <p>A row is its key, event time in microseconds, record time in milliseconds, partition and offset,
 * the arguments, and its bytes. The operator started a day ago, so that nothing waits only because of
 * that.
 */
final class Keyed {
    static final long SECOND = 1_000_000;
    static final int FIRST_ARGUMENT = 5;

    private static final int AT = 1;
    private static final int WRITTEN = 2;
    private static final long DAY_MS = 86_400_000;

    private final Row group;
    private final Map<String, Object> values = new HashMap<>();
    private final Map<String, TreeMap<Object, Object>> maps = new HashMap<>();
    private final TreeSet<Long> timers = new TreeSet<>();
    private final Supplier<Operator<?>> made;
    private Operator<?> operator;
    private UUID run;
    private int fired;
    private long now = System.currentTimeMillis() + DAY_MS;

    /** Creates an operator from its spec. */
    interface Maker {
        Operator<?> make(String spec, int at, int written);
    }

    /** @param spec the operator's configuration, with {@code '} for quotes */
    Keyed(Maker maker, String spec) {
        this(maker, spec, "k");
    }

    Keyed(Maker maker, String spec, String key) {
        group = RowFactory.create(key);
        String json = "{'operator':'op','pipeline':'test','tick_ms':50,".replace('\'', '"')
                + spec.replace('\'', '"') + "}";
        made = () -> maker.make(json, AT, WRITTEN);
        restart();
    }

    /** Starts a new task with the stored state, in a run that started long ago. */
    void restart() {
        restart(now - DAY_MS);
    }

    /** Starts a new run with the stored state. */
    void restartNow() {
        restart(now);
    }

    private void restart(long start) {
        run = UUID.randomUUID();
        operator = made.get();
        operator.setHandle(new Handle());
        TaskContext task = Tasks.task();
        ArrivalClock.of(run, operator.id(), task.partitionId(), start);
        Tasks.in(task, () -> {
            operator.init(OutputMode.Update(), TimeMode.ProcessingTime());
            return null;
        });
    }

    long now() {
        return now;
    }

    /** A row at a second of event time. */
    static Row at(double second, String bytes, Object... arguments) {
        return row(Math.round(second * SECOND), null, null, null, bytes, arguments);
    }

    static Row row(Long at, Long written, Long stream, Long offset, String bytes, Object... arguments) {
        Object[] all = new Object[FIRST_ARGUMENT + arguments.length + 1];
        all[0] = "k";
        all[1] = at;
        all[2] = written;
        all[3] = stream;
        all[4] = offset;
        System.arraycopy(arguments, 0, all, FIRST_ARGUMENT, arguments.length);
        all[all.length - 1] = bytes == null ? null : bytes.getBytes(StandardCharsets.UTF_8);
        return RowFactory.create(all);
    }

    /** Processes rows one by one, as real time does; returns the results as text. */
    List<String> put(Row... rows) {
        return Arrays.stream(rows).flatMap(row -> batch(row).stream()).toList();
    }

    /** Processes rows together, as a micro-batch does. */
    List<String> batch(Row... rows) {
        Iterator<Row> given = CollectionConverters.asScala(List.of(rows).iterator());
        return texts(operator.handleInputRows(group, given, times()));
    }

    /** Advances the clock and fires the timers that are due. */
    List<String> pass(double seconds) {
        long until = now + Math.round(seconds * 1000);
        List<String> out = new ArrayList<>();
        while (!timers.isEmpty() && timers.first() <= until) {
            long expired = timers.pollFirst();
            now = Math.max(now, expired);
            fired++;
            ExpiredTimerInfo info = () -> expired;
            out.addAll(texts(operator.handleExpiredTimer(group, times(), info)));
        }
        now = until;
        return out;
    }

    /** How often a timer has fired. */
    int fired() {
        return fired;
    }

    /** Whether the key has no state. */
    boolean isExpired() {
        return values.isEmpty() && maps.values().stream().allMatch(Map::isEmpty);
    }

    /** Replaces a state value, as an earlier release wrote it. */
    void store(String name, Object value) {
        values.put(name, value);
    }

    int stateBytes() {
        return values.values().stream().mapToInt(bytes -> ((byte[]) bytes).length).sum();
    }

    int entries(String map) {
        return maps.getOrDefault(map, new TreeMap<>()).size();
    }

    int timers() {
        return timers.size();
    }

    private TimerValues times() {
        return new TimerValues() {
            @Override
            public long getCurrentProcessingTimeInMs() {
                return now;
            }

            @Override
            public long getCurrentWatermarkInMs() {
                throw new UnsupportedOperationException();
            }
        };
    }

    /** Results without their key: values separated by blanks, bytes as text. */
    private static List<String> texts(Iterator<Row> rows) {
        List<String> all = new ArrayList<>();
        while (rows.hasNext()) {
            Row row = rows.next();
            List<Object> values = new ArrayList<>();
            for (int i = 0; i < row.length(); i++) {
                if (i > 0 || !"k".equals(row.get(i))) values.add(row.get(i));
            }
            all.add(values.stream()
                    .map(one -> one instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : "" + one)
                    .collect(Collectors.joining(" ")));
        }
        return all;
    }

    private final class Handle implements StatefulProcessorHandle {
        @Override
        public <T> ValueState<T> getValueState(String name, Encoder<T> encoder, TTLConfig ttl) {
            return new Value<>(name);
        }

        @Override
        public <K, V> MapState<K, V> getMapState(String name, Encoder<K> keys, Encoder<V> values, TTLConfig ttl) {
            return new Entries<>(maps.computeIfAbsent(name, one -> new TreeMap<>()));
        }

        @Override
        public void registerTimer(long expiry) {
            timers.add(expiry);
        }

        @Override
        public void deleteTimer(long expiry) {
            timers.remove(expiry);
        }

        @Override
        public Iterator<Object> listTimers() {
            return CollectionConverters.asScala(new ArrayList<Object>(timers).iterator());
        }

        @Override
        public QueryInfo getQueryInfo() {
            return new QueryInfo() {
                @Override
                public UUID getQueryId() {
                    return run;
                }

                @Override
                public UUID getRunId() {
                    return run;
                }

                @Override
                public long getBatchId() {
                    return 0;
                }
            };
        }

        @Override
        public <T> ValueState<T> getValueState(String name, TTLConfig ttl, Encoder<T> encoder) {
            throw new UnsupportedOperationException();
        }

        @Override
        public <T> ListState<T> getListState(String name, Encoder<T> encoder, TTLConfig ttl) {
            throw new UnsupportedOperationException();
        }

        @Override
        public <T> ListState<T> getListState(String name, TTLConfig ttl, Encoder<T> encoder) {
            throw new UnsupportedOperationException();
        }

        @Override
        public <K, V> MapState<K, V> getMapState(String name, TTLConfig ttl, Encoder<K> keys, Encoder<V> values) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void deleteIfExists(String name) {
            throw new UnsupportedOperationException();
        }
    }

    @SuppressWarnings("unchecked")
    private final class Value<T> implements ValueState<T> {
        private final String name;

        Value(String name) {
            this.name = name;
        }

        @Override
        public boolean exists() {
            return values.containsKey(name);
        }

        @Override
        public T get() {
            return (T) values.get(name);
        }

        @Override
        public void update(T value) {
            values.put(name, value);
        }

        @Override
        public void clear() {
            values.remove(name);
        }
    }

    @SuppressWarnings("unchecked")
    private static final class Entries<K, V> implements MapState<K, V> {
        private final TreeMap<Object, Object> map;

        Entries(TreeMap<Object, Object> map) {
            this.map = map;
        }

        @Override
        public boolean exists() {
            return !map.isEmpty();
        }

        @Override
        public V getValue(K key) {
            return (V) map.get(key);
        }

        @Override
        public boolean containsKey(K key) {
            return map.containsKey(key);
        }

        @Override
        public void updateValue(K key, V value) {
            map.put(key, value);
        }

        @Override
        public Iterator<Tuple2<K, V>> iterator() {
            List<Tuple2<K, V>> all = new ArrayList<>();
            map.forEach((key, value) -> all.add(new Tuple2<>((K) key, (V) value)));
            return CollectionConverters.asScala(all.iterator());
        }

        @Override
        public Iterator<K> keys() {
            return CollectionConverters.asScala(((List<K>) new ArrayList<>(map.keySet())).iterator());
        }

        @Override
        public Iterator<V> values() {
            return CollectionConverters.asScala(((List<V>) new ArrayList<>(map.values())).iterator());
        }

        @Override
        public void removeKey(K key) {
            map.remove(key);
        }

        @Override
        public void clear() {
            map.clear();
        }
    }
}
