package dev.eagre.spark;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * What this JVM holds for each run of a streaming query, so that two queries share nothing. Executors are not notified
 * when a query ends; therefore the runs that were used last are retained, more than a JVM runs at the same time.
 */
public final class PerRun<T> {
    static final int MAX_RUNS = 100;

    private final Supplier<T> create;
    private final Map<String, T> values;

    public PerRun(Supplier<T> create) {
        this(create, value -> {});
    }

    /** @param forgotten receives the value of a run that is no longer retained */
    public PerRun(Supplier<T> create, Consumer<T> forgotten) {
        this.create = create;
        values = new LinkedHashMap<>(16, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, T> eldest) {
                boolean full = size() > MAX_RUNS;
                if (full) forgotten.accept(eldest.getValue());
                return full;
            }
        };
    }

    /** The value of a run, which is created if there is none. */
    public synchronized T of(String run) {
        return values.computeIfAbsent(run, id -> create.get());
    }

    /** The value of a run; null if there is none. */
    public synchronized T find(String run) {
        return values.get(run);
    }

    /** The values by run. */
    public synchronized Map<String, T> all() {
        return new LinkedHashMap<>(values);
    }
}
