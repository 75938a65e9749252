package dev.eagre.delivery;

import dev.eagre.spark.RowOrdinals;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * The identity of a result as bytes for its header, or null for a result that was delivered before.
 *
 * <p>An identity is the position of the row that triggered the result, and a number where one row
 * gives several. The expression says that it is not deterministic, so that Spark evaluates it once
 * for each row, right before the sink, and neither moves nor copies it. An instance serves one task.
 */
public final class ReplayFilter extends Expression implements CodegenFallback, Serializable {
    static final String LEAST = "least";

    private final Expression source;
    private final String prefix;
    private final Broadcast<DeliveredOffsets> delivered;
    private transient boolean open;
    private transient DeliveredOffsets known;
    private transient int topicAt;
    private transient int partitionAt;
    private transient int offsetAt;
    private transient int timestampAt;
    private transient int leastAt;
    private transient RowOrdinals turns;

    /**
     * @param source the row's origin
     * @param prefix what each header begins with: the pipeline's id and incarnation
     * @param delivered what was delivered before this incarnation
     */
    public ReplayFilter(Expression source, String prefix, Broadcast<DeliveredOffsets> delivered) {
        this.source = source;
        this.prefix = prefix;
        this.delivered = delivered;
    }

    @Override
    public Object eval(InternalRow row) {
        if (!open) open();
        InternalRow origin = (InternalRow) source.eval(row);
        if (origin == null || origin.isNullAt(offsetAt) || origin.isNullAt(partitionAt)) {
            throw new IllegalStateException("EXACTLY_ONCE_ORIGIN: a row came without its origin (_source is null);"
                    + " keep the column as the source gave it");
        }
        turns.next(origin.getUTF8String(topicAt), origin.getInt(partitionAt), origin.getLong(offsetAt));
        if (leastAt >= 0 && origin.getInt(leastAt) != turns.partition()) {
            throw new IllegalStateException("KEY_NOT_ALIGNED: rows of one key came from the partitions "
                    + origin.getInt(leastAt) + " and " + turns.partition() + " of topic " + turns.topic()
                    + "; the source's partitioned_by is not true of it");
        }
        if (known.contains(turns.topic(), turns.partition(), turns.offset(), turns.ordinal())) return null;
        long micros = timestampAt < 0 || origin.isNullAt(timestampAt) ? -1 : origin.getLong(timestampAt);
        return header(micros).getBytes(StandardCharsets.UTF_8);
    }

    /** {@code PIPELINE INCARNATION TOPIC/PARTITION/OFFSET/ORDINAL MILLISECONDS}. */
    private String header(long micros) {
        StringBuilder text = new StringBuilder(prefix.length() + turns.topic().length() + 48);
        text.append(prefix).append(' ').append(turns.topic()).append('/').append(turns.partition()).append('/');
        text.append(turns.offset()).append('/').append(turns.ordinal());
        return text.append(' ').append(micros < 0 ? -1 : micros / 1000).toString();
    }

    private void open() {
        if (prefix.isEmpty()) {
            throw new IllegalStateException("EXACTLY_ONCE_UNOPENED: this query was started without a look at what"
                    + " was delivered before: start it with eagre run, or pass gate= from eagre.delivery.begin");
        }
        TaskContext task = TaskContext.get();
        if (task != null && task.attemptNumber() > 0) {
            throw new IllegalStateException("EXACTLY_ONCE_RETRY: a task was tried again inside a run; what its first"
                    + " try wrote is not known: set spark.task.maxFailures=1");
        }
        StructType type = (StructType) source.dataType();
        topicAt = type.fieldIndex("topic");
        partitionAt = type.fieldIndex("partition");
        offsetAt = type.fieldIndex("offset");
        timestampAt = place(type, "timestamp");
        leastAt = place(type, LEAST);
        known = delivered.value();
        turns = new RowOrdinals();
        open = true;
    }

    private static int place(StructType type, String field) {
        return type.getFieldIndex(field).isDefined() ? type.fieldIndex(field) : -1;
    }

    @Override
    public Seq<Expression> children() {
        return dev.eagre.spark.RowSteps.sequence(java.util.List.of(source));
    }

    @Override
    public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
        return new ReplayFilter(changed.head(), prefix, delivered);
    }

    @Override
    public DataType dataType() {
        return DataTypes.BinaryType;
    }

    @Override
    public boolean nullable() {
        return true;
    }

    @Override
    public boolean deterministic() {
        return false;
    }

    @Override
    public boolean foldable() {
        return false;
    }

    @Override
    public boolean stateful() {
        return true;
    }

    @Override
    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
        return CodegenFallback.super.doGenCode(context, code);
    }

    @Override
    public String prettyName() {
        return "eagre_identity";
    }

    @Override
    public int productArity() {
        return 3;
    }

    @Override
    public Object productElement(int index) {
        return index == 0 ? source : index == 1 ? prefix : delivered;
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof ReplayFilter;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof ReplayFilter that && source.equals(that.source) && prefix.equals(that.prefix)
                && delivered.equals(that.delivered);
    }

    @Override
    public int hashCode() {
        return source.hashCode() * 31 + prefix.hashCode();
    }
}
