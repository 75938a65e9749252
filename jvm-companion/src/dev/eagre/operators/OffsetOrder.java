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
 * The rows of a key in a batch, in the order in which real time would have had them: those of a Kafka
 * partition by their offsets, and partitions merged by when their records were written. A batch groups
 * and sorts rows by key, behind another operator by that one's, and so loses their order.
 */
final class OffsetOrder {
    /** So many rows of a key are brought in order together; a batch may hold more. */
    private static final int MOST = 100_000;

    private final int written;
    private final int stream;
    private final int offset;

    /** The columns with the record's time, its partition and its offset stand side by side. */
    OffsetOrder(int written) {
        this.written = written;
        this.stream = written + 1;
        this.offset = written + 2;
    }

    /** The next rows; one row, as real time gives them, as it is. */
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

    /** A partition's rows, at the next of them. */
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
