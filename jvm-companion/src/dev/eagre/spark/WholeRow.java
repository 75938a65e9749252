package dev.eagre.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.ObjectType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/** A copy of the row as an object, for a step that processes rows. */
public final class WholeRow extends ProductExpression implements CodegenFallback {
    static final ObjectType TYPE = new ObjectType(InternalRow.class);

    private final Seq<Expression> columns;
    private transient UnsafeProjection projection;
    private transient Boolean columnsInOrder;

    /** Spark's trees copy nodes through their public constructor. */
    public WholeRow(Seq<Expression> columns) {
        super(columns);
        this.columns = columns;
    }

    @Override
    public Seq<Expression> children() {
        return columns;
    }

    @Override
    public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
        return new WholeRow(changed);
    }

    @Override
    public DataType dataType() {
        return TYPE;
    }

    @Override
    public boolean nullable() {
        return false;
    }

    @Override
    public Object eval(InternalRow row) {
        if (columnsInOrder == null) columnsInOrder = inOrder();
        if (columnsInOrder && row instanceof UnsafeRow unsafe && unsafe.numFields() == columns.size()) {
            return unsafe.copy();
        }
        if (projection == null) projection = UnsafeProjection.create(columns);
        return projection.apply(row).copy();
    }

    private boolean inOrder() {
        for (int i = 0; i < columns.size(); i++) {
            if (!(columns.apply(i) instanceof BoundReference bound) || bound.ordinal() != i) return false;
        }
        return true;
    }

    @Override
    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
        return CodegenFallback.super.doGenCode(context, code);
    }
}
