package dev.eagre.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/** The number of a row among the consecutive rows of its record; null for a row of no known record. */
public final class RowNumber extends OncePerRow {
    private final Expression source;
    private transient int[] fields;
    private transient RowOrdinals ordinals;

    /** @param source the row's provenance */
    public RowNumber(Expression source) {
        super(source);
        this.source = source;
    }

    @Override
    public Object eval(InternalRow row) {
        if (ordinals == null) open();
        InternalRow at = (InternalRow) source.eval(row);
        if (at == null || at.isNullAt(fields[0]) || at.isNullAt(fields[1]) || at.isNullAt(fields[2])) return null;
        ordinals.next(at.getUTF8String(fields[0]), at.getInt(fields[1]), at.getLong(fields[2]));
        return ordinals.ordinal();
    }

    private void open() {
        StructType type = (StructType) source.dataType();
        fields = new int[] {type.fieldIndex("topic"), type.fieldIndex("partition"), type.fieldIndex("offset")};
        ordinals = new RowOrdinals();
    }

    @Override
    public Seq<Expression> children() {
        return RowSteps.sequence(List.of(source));
    }

    @Override
    public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
        return new RowNumber(changed.head());
    }

    @Override
    public DataType dataType() {
        return DataTypes.IntegerType;
    }

    @Override
    public String prettyName() {
        return "eagre_row_number";
    }
}
