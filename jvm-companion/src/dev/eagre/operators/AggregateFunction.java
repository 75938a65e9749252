package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;

/**
 * One aggregate over rows: {@code count}, {@code sum}, {@code avg}, {@code min}, {@code max} or
 * {@code distinct}; nulls are ignored, as in SQL. Its argument is a column of integers or of floating-point
 * numbers; that of {@code distinct} is a hash.
 */
final class AggregateFunction {
    enum Kind {
        COUNT,
        SUM,
        AVG,
        MIN,
        MAX,
        DISTINCT
    }

    final Kind kind;
    private final int column;
    private final boolean whole;

    private AggregateFunction(Kind kind, int column, boolean whole) {
        this.kind = kind;
        this.column = column;
        this.whole = whole;
    }

    static List<AggregateFunction> all(JsonNode specs) {
        List<AggregateFunction> aggregates = new ArrayList<>();
        for (JsonNode spec : specs) {
            Kind kind = Kind.valueOf(spec.get("kind").asText().toUpperCase(java.util.Locale.ROOT));
            aggregates.add(new AggregateFunction(kind, spec.get("column").asInt(), spec.get("whole").asBoolean()));
        }
        return aggregates;
    }

    static Partial[] empty(List<AggregateFunction> aggregates) {
        Partial[] partials = new Partial[aggregates.size()];
        for (int i = 0; i < partials.length; i++) partials[i] = new Partial();
        return partials;
    }

    static void add(List<AggregateFunction> aggregates, Partial[] partials, Row row) {
        for (int i = 0; i < partials.length; i++) aggregates.get(i).add(partials[i], row);
    }

    static void merge(List<AggregateFunction> aggregates, Partial[] into, Partial[] other) {
        for (int i = 0; i < into.length; i++) aggregates.get(i).merge(into[i], other[i]);
    }

    static Partial[] read(List<AggregateFunction> aggregates, DataInputStream in) throws IOException {
        Partial[] partials = empty(aggregates);
        for (int i = 0; i < partials.length; i++) aggregates.get(i).read(partials[i], in);
        return partials;
    }

    static void write(List<AggregateFunction> aggregates, Partial[] partials, DataOutputStream out) throws IOException {
        for (int i = 0; i < partials.length; i++) aggregates.get(i).write(partials[i], out);
    }

    /** The intermediate result of an aggregate. */
    static final class Partial {
        long count;
        long whole;
        double real;
        DistinctSketch sketch;
    }

    /** Adds a row; minus zero becomes zero, because SQL does not distinguish them. */
    void add(Partial partial, Row row) {
        if (row.isNullAt(column)) return;
        Partial single = new Partial();
        single.count = 1;
        if (kind == Kind.DISTINCT) {
            single.sketch = DistinctSketch.of(row.getLong(column));
        } else if (kind != Kind.COUNT) {
            single.whole = whole ? row.getLong(column) : 0;
            single.real = whole ? single.whole : row.getDouble(column) + 0.0;
        }
        merge(partial, single);
    }

    void merge(Partial into, Partial other) {
        if (other.count == 0) return;
        boolean first = into.count == 0;
        into.count += other.count;
        switch (kind) {
            case COUNT -> {}
            case SUM, AVG -> {
                into.whole = saturated(into.whole, other.whole);
                into.real += other.real;
            }
            case MIN -> take(into, other, first || compare(other, into) < 0);
            case MAX -> take(into, other, first || compare(other, into) > 0);
            case DISTINCT -> into.sketch = first ? other.sketch : into.sketch.with(other.sketch);
        }
    }

    /** Compares like Spark SQL: NaN is the largest value, so the order of rows does not matter. */
    private int compare(Partial a, Partial b) {
        return whole ? Long.compare(a.whole, b.whole) : Double.compare(a.real, b.real);
    }

    private static void take(Partial into, Partial other, boolean better) {
        if (!better) return;
        into.whole = other.whole;
        into.real = other.real;
    }

    private static long saturated(long a, long b) {
        long sum = a + b;
        boolean overflows = ((a ^ sum) & (b ^ sum)) < 0;
        return overflows ? (a < 0 ? Long.MIN_VALUE : Long.MAX_VALUE) : sum;
    }

    Object result(Partial partial) {
        if (kind == Kind.COUNT) return partial.count;
        if (kind == Kind.DISTINCT) return partial.count == 0 ? 0L : partial.sketch.estimate();
        if (partial.count == 0) return null;
        if (kind == Kind.AVG) return partial.real / partial.count;
        if (whole) return partial.whole;
        return partial.real;
    }

    private void read(Partial partial, DataInputStream in) throws IOException {
        partial.count = in.readLong();
        if (partial.count == 0 || kind == Kind.COUNT) return;
        if (kind == Kind.DISTINCT) {
            partial.sketch = DistinctSketch.read(in);
            return;
        }
        partial.whole = whole ? in.readLong() : 0;
        partial.real = whole && kind != Kind.AVG ? partial.whole : in.readDouble();
    }

    private void write(Partial partial, DataOutputStream out) throws IOException {
        out.writeLong(partial.count);
        if (partial.count == 0 || kind == Kind.COUNT) return;
        if (kind == Kind.DISTINCT) {
            partial.sketch.write(out);
            return;
        }
        if (whole) out.writeLong(partial.whole);
        if (!whole || kind == Kind.AVG) out.writeDouble(partial.real);
    }
}
