package dev.eagre.python.codec;

import dev.eagre.spark.ProductExpression;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/** Converts a struct to the bytes that workers read and write, or back. */
public final class RowBytes extends ProductExpression implements CodegenFallback {
    private final StructType type;
    private final Boolean reading;
    private final Seq<Expression> children;
    private transient Codec.RowCodec codec;

    /** Spark's trees copy nodes through their public constructor. */
    public RowBytes(StructType type, Boolean reading, Seq<Expression> children) {
        super(type, reading, children);
        this.type = type;
        this.reading = reading;
        this.children = children;
    }

    @Override
    public Seq<Expression> children() {
        return children;
    }

    @Override
    public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
        return new RowBytes(type, reading, changed);
    }

    @Override
    public DataType dataType() {
        return reading ? type : DataTypes.BinaryType;
    }

    @Override
    public boolean nullable() {
        return true;
    }

    @Override
    public Object eval(InternalRow row) {
        Object value = children.head().eval(row);
        if (value == null) return null;
        if (codec == null) codec = new Codec.RowCodec(type);
        return reading ? codec.fromBytes((byte[]) value) : codec.toBytes((InternalRow) value);
    }

    @Override
    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
        return CodegenFallback.super.doGenCode(context, code);
    }
}
