package dev.eagre.operators;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import org.apache.spark.sql.Row;
import scala.collection.Iterator;

/**
 * Restores the real-time order of a key's rows in a batch: rows of a Kafka partition by offset, and
 * partitions merged by the time their records were written. A batch groups and sorts rows by key, or by
 * the key of a previous operator, and so loses their order.
 */
final class OffsetOrder {
    /** How many rows of a key are sorted together; a batch can have more. */
    private static final int MOST = 100_000;

    private final int written;
    private final int stream;
    private final int offset;

    /** The columns with the record's time, partition and offset are adjacent. */
    OffsetOrder(int written) {
        this.written = written;
        this.stream = written + 1;
        this.offset = written + 2;
    }

    /** The next rows; a single row, as in real time, is returned unchanged. */
    List<Row> next(Iterator<Row> rows) {
        Row first = rows.next();
        if (!rows.hasNext()) return List.of(first);
        List<Row> taken = new ArrayList<>(List.of(first));
        while (rows.hasNext() && taken.size() < MOST) taken.add(rows.next());
        return merged(taken);
    }

    private List<Row> merged(List<Row> rows) {
        Map<Long, List<Row>> streams = new LinkedHashMap<>();
        for (Row row : rows) {
            if (row.isNullAt(written) || row.isNullAt(stream) || row.isNullAt(offset)) return rows;
            streams.computeIfAbsent(row.getLong(stream), key -> new ArrayList<>()).add(row);
        }
        PriorityQueue<Head> heads = new PriorityQueue<>(
                Comparator.<Head>comparingLong(head -> head.row().getLong(written)).thenComparing(Head::stream));
        streams.forEach((name, some) -> {
            some.sort(Comparator.comparingLong(row -> row.getLong(offset)));
            heads.add(new Head(name, some.iterator()));
        });
        List<Row> merged = new ArrayList<>(rows.size());
        while (!heads.isEmpty()) {
            Head head = heads.poll();
            merged.add(head.row());
            if (head.advance()) heads.add(head);
        }
        return merged;
    }

    /** The rows of a partition, positioned at the next one. */
    private static final class Head {
        private final Long stream;
        private final java.util.Iterator<Row> rows;
        private Row row;

        Head(Long stream, java.util.Iterator<Row> rows) {
            this.stream = stream;
            this.rows = rows;
            row = rows.next();
        }

        Long stream() {
            return stream;
        }

        Row row() {
            return row;
        }

        boolean advance() {
            if (!rows.hasNext()) return false;
            row = rows.next();
            return true;
        }
    }
}
