package dev.eagre.operators;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.junit.jupiter.api.Test;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** A row is its record time, partition and offset. */
class OffsetOrderTest {
    private final OffsetOrder merging = new OffsetOrder(0);

    private static Row row(Object... values) {
        return RowFactory.create(values);
    }

    private static Iterator<Row> iterator(List<Row> rows) {
        return CollectionConverters.asScala(rows.iterator());
    }

    private List<Row> merged(Row... rows) {
        return merging.next(iterator(Arrays.asList(rows)));
    }

    @Test
    void aSingleRowIsUnchanged() {
        Row row = row(null, null, null);
        assertSame(row, merged(row).get(0));
    }

    @Test
    void rowsOfAPartitionAreOrderedByOffset() {
        assertEquals(List.of(row(9L, 1L, 0L), row(5L, 1L, 1L), row(7L, 1L, 2L)),
                merged(row(7L, 1L, 2L), row(9L, 1L, 0L), row(5L, 1L, 1L)), "even if written out of order");
    }

    @Test
    void partitionsAreMergedByRecordTime() {
        assertEquals(List.of(row(1L, 2L, 0L), row(2L, 1L, 0L), row(3L, 2L, 1L), row(4L, 1L, 1L)),
                merged(row(2L, 1L, 0L), row(4L, 1L, 1L), row(1L, 2L, 0L), row(3L, 2L, 1L)));
    }

    @Test
    void equalTimesAreOrderedByPartition() {
        assertEquals(List.of(row(1L, -5L, 0L), row(1L, 3L, 0L)), merged(row(1L, 3L, 0L), row(1L, -5L, 0L)));
    }

    @Test
    void rowsWithoutProvenanceKeepTheirOrder() {
        List<Row> rows = List.of(row(2L, 1L, 1L), row(1L, null, 0L), row(0L, 1L, 0L));
        assertEquals(rows, merged(rows.toArray(new Row[0])));
    }

    @Test
    void theOrderIsIndependentOfTheBatch() {
        long seed = 3;
        Random random = new Random(seed);
        List<Row> rows = new ArrayList<>();
        for (long offset = 0; offset < 200; offset++) {
            for (long partition = 0; partition < 3; partition++) {
                rows.add(row(offset * 10 + random.nextInt(30), partition, offset));
            }
        }
        List<Row> expected = merging.next(iterator(rows));
        for (int round = 0; round < 5; round++) {
            Collections.shuffle(rows, random);
            assertEquals(expected, merging.next(iterator(rows)), "seed " + seed);
        }
    }

    @Test
    void aHugeBatchIsProcessedInParts() {
        List<Row> rows = new ArrayList<>();
        for (long i = 0; i < 100_001; i++) rows.add(row(i, 0L, i));
        Iterator<Row> iterator = iterator(rows);
        assertEquals(100_000, merging.next(iterator).size());
        assertEquals(List.of(row(100_000L, 0L, 100_000L)), merging.next(iterator));
    }
}
