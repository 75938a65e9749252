package dev.eagre.operators;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/** Rows that start with a key. */
final class KeyedResults {
    private KeyedResults() {}

    static Row row(Row group, Object... more) {
        Object[] values = new Object[group.length() + more.length];
        for (int i = 0; i < group.length(); i++) values[i] = group.get(i);
        System.arraycopy(more, 0, values, group.length(), more.length);
        return RowFactory.create(values);
    }
}
