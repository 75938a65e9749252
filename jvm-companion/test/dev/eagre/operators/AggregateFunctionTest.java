package dev.eagre.operators;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.eagre.operators.AggregateFunction.Partial;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.spark.sql.RowFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class AggregateFunctionTest {
    private static final long SEED = 8;

    private static List<AggregateFunction> aggregates(String kind, boolean whole) {
        try {
            return AggregateFunction.all(new ObjectMapper()
                    .readTree("[{\"kind\":\"" + kind + "\",\"column\":0,\"whole\":" + whole + "}]"));
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static Partial[] over(List<AggregateFunction> aggregates, Object... values) {
        Partial[] partials = AggregateFunction.empty(aggregates);
        for (Object value : values) AggregateFunction.add(aggregates, partials, RowFactory.create(value));
        return partials;
    }

    private static Object result(String kind, Object... values) {
        boolean whole = Arrays.stream(values).noneMatch(value -> value instanceof Double);
        List<AggregateFunction> aggregates = aggregates(kind, whole);
        return aggregates.get(0).result(over(aggregates, values)[0]);
    }

    @Test
    void integers() {
        assertEquals(3L, result("count", 5L, 5L, -1L));
        assertEquals(9L, result("sum", 5L, 5L, -1L));
        assertEquals(3.0, result("avg", 5L, 5L, -1L));
        assertEquals(-1L, result("min", 5L, 5L, -1L));
        assertEquals(5L, result("max", 5L, 5L, -1L));
        assertEquals(2L, result("distinct", 5L, 5L, -1L));
    }

    @Test
    void floatingPointNumbers() {
        assertEquals(1.5, result("sum", 0.5, 1.0));
        assertEquals(0.75, result("avg", 0.5, 1.0));
        assertEquals(0.5, result("min", 0.5, 1.0));
        assertEquals(1.0, result("max", 0.5, 1.0));
    }

    @Test
    void nullsAreIgnored() {
        assertEquals(1L, result("count", null, 5L));
        assertEquals(5L, result("sum", null, 5L));
        assertEquals(5.0, result("avg", null, 5L));
        assertEquals(5L, result("min", null, 5L));
        assertEquals(1L, result("distinct", null, 5L));
    }

    @Test
    void emptyAggregatesFollowSql() {
        assertEquals(0L, result("count"));
        assertEquals(0L, result("distinct", (Object) null));
        for (String kind : List.of("sum", "avg", "min", "max")) assertEquals(null, result(kind, (Object) null), kind);
    }

    @Test
    void anOverflowingSumStaysAtTheMaximum() {
        assertEquals(Long.MAX_VALUE, result("sum", Long.MAX_VALUE, 1L));
        assertEquals(Long.MIN_VALUE, result("sum", Long.MIN_VALUE, -1L));
        assertEquals(-1L, result("sum", Long.MAX_VALUE, Long.MIN_VALUE));
    }

    @Test
    void extremesOfNegativeNumbers() {
        assertEquals(-1L, result("max", -5L, -1L));
        assertEquals(-0.5, result("max", -5.0, -0.5));
        assertEquals(Long.MIN_VALUE, result("min", Long.MAX_VALUE, Long.MIN_VALUE));
    }

    /** As in Spark SQL, NaN is greater than every number. */
    @Test
    void nanIsTheLargestNumberInAnyOrder() {
        assertEquals(1.0, result("min", Double.NaN, 1.0));
        assertEquals(1.0, result("min", 1.0, Double.NaN));
        assertEquals(Double.NaN, result("max", 1.0, Double.NaN));
        assertEquals(Double.NaN, result("max", Double.NaN, 1.0));
        assertEquals(Double.NaN, result("min", Double.NaN, Double.NaN));
    }

    @ParameterizedTest
    @EnumSource(AggregateFunction.Kind.class)
    void partialAggregatesCanBeMergedAndSerialized(AggregateFunction.Kind kind) {
        Random random = new Random(SEED);
        List<AggregateFunction> aggregates = aggregates(kind.name().toLowerCase(java.util.Locale.ROOT), true);
        Object[] values = random.longs(300, -1000, 1000).boxed().toArray();
        values[7] = null;
        Partial[] merged = AggregateFunction.empty(aggregates);
        for (int i = 0; i < 300; i += 50) {
            Partial[] part = over(aggregates, Arrays.copyOfRange(values, i, i + 50));
            byte[] bytes = StateLayout.write(out -> AggregateFunction.write(aggregates, part, out));
            AggregateFunction.merge(aggregates, merged, StateLayout.read(bytes, "test", in -> AggregateFunction.read(aggregates, in)));
        }
        Collections.shuffle(Arrays.asList(values), random);
        Object expected = aggregates.get(0).result(over(aggregates, values)[0]);
        assertEquals(expected, aggregates.get(0).result(merged[0]), "seed " + SEED);
    }

    @ParameterizedTest
    @EnumSource(AggregateFunction.Kind.class)
    void anEmptyPartialAggregateChangesNothing(AggregateFunction.Kind kind) {
        List<AggregateFunction> aggregates = aggregates(kind.name(), true);
        Partial[] partials = over(aggregates, 3L);
        AggregateFunction.merge(aggregates, partials, AggregateFunction.empty(aggregates));
        Object alone = aggregates.get(0).result(over(aggregates, 3L)[0]);
        assertEquals(alone, aggregates.get(0).result(partials[0]));
        byte[] empty = StateLayout.write(out -> AggregateFunction.write(aggregates, AggregateFunction.empty(aggregates), out));
        Partial[] back = StateLayout.read(empty, "test", in -> AggregateFunction.read(aggregates, in));
        assertEquals(0, back[0].count);
    }

    /** Merging must not change its argument: boards and slices are merged repeatedly. */
    @Test
    void mergingDoesNotChangeTheArgument() {
        List<AggregateFunction> aggregates = aggregates("distinct", true);
        Partial[] one = over(aggregates, 1L);
        Partial[] both = AggregateFunction.empty(aggregates);
        AggregateFunction.merge(aggregates, both, one);
        AggregateFunction.merge(aggregates, both, over(aggregates, 2L));
        assertEquals(1L, aggregates.get(0).result(one[0]));
        assertEquals(2L, aggregates.get(0).result(both[0]));
    }

    @Test
    void anUnknownKindIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> aggregates("median", true));
    }
}
