package dev.eagre.delivery;

import dev.eagre.spark.OncePerRow;
import dev.eagre.spark.RowOrdinals;
import dev.eagre.spark.RowSteps;
import dev.eagre.state.CheckpointClaim;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * The identity of a result as bytes for its header, or null for a result that was already delivered.
 *
 * <p>An identity is the position of the row that triggered the result, plus an ordinal if one row gives
 * several results. The expression is declared as not deterministic, so that Spark evaluates it once per
 * row, right before the sink, and neither moves nor copies it. An instance serves one task.
 */
public final class ReplayFilter extends OncePerRow {
    static final String LEAST = "least";

    private final Expression source;
    private final String prefix;
    private final Broadcast<DeliveredOffsets> delivered;
    private transient boolean open;
    private transient DeliveredOffsets deliveredOffsets;
    private transient int topicAt;
    private transient int partitionAt;
    private transient int offsetAt;
    private transient int timestampAt;
    private transient int leastAt;
    private transient RowOrdinals ordinals;

    /**
     * @param source the row's provenance
     * @param prefix the start of each header: the pipeline's id and incarnation
     * @param delivered what earlier incarnations delivered
     */
    public ReplayFilter(Expression source, String prefix, Broadcast<DeliveredOffsets> delivered) {
        super(source, prefix, delivered);
        this.source = source;
        this.prefix = prefix;
        this.delivered = delivered;
    }

    @Override
    public Object eval(InternalRow row) {
        if (!open) open();
        CheckpointClaim.requireAll();
        InternalRow provenance = (InternalRow) source.eval(row);
        if (provenance == null || provenance.isNullAt(offsetAt) || provenance.isNullAt(partitionAt)) {
            throw new IllegalStateException("EXACTLY_ONCE_ORIGIN: a row has no provenance (_source is null);"
                    + " keep the column unchanged");
        }
        ordinals.next(provenance.getUTF8String(topicAt), provenance.getInt(partitionAt), provenance.getLong(offsetAt));
        if (leastAt >= 0 && provenance.getInt(leastAt) != ordinals.partition()) {
            throw new IllegalStateException("KEY_NOT_ALIGNED: rows of one key came from the partitions "
                    + provenance.getInt(leastAt) + " and " + ordinals.partition() + " of topic " + ordinals.topic()
                    + "; the source's partitioned_by does not match the topic");
        }
        if (deliveredOffsets.contains(ordinals.topic(), ordinals.partition(), ordinals.offset(), ordinals.ordinal())) return null;
        long micros = timestampAt < 0 || provenance.isNullAt(timestampAt) ? -1 : provenance.getLong(timestampAt);
        return header(micros).getBytes(StandardCharsets.UTF_8);
    }

    /** {@code PIPELINE INCARNATION TOPIC/PARTITION/OFFSET/ORDINAL MILLISECONDS}. */
    private String header(long micros) {
        StringBuilder text = new StringBuilder(prefix.length() + ordinals.topic().length() + 48);
        text.append(prefix).append(' ').append(ordinals.topic()).append('/').append(ordinals.partition()).append('/');
        text.append(ordinals.offset()).append('/').append(ordinals.ordinal());
        return text.append(' ').append(micros < 0 ? -1 : micros / 1000).toString();
    }

    private void open() {
        if (prefix.isEmpty()) {
            throw new IllegalStateException("EXACTLY_ONCE_UNOPENED: this query was started without a scan of what"
                    + " was already delivered: start it with eagre run, or pass replays= from eagre.delivery.begin");
        }
        TaskContext task = TaskContext.get();
        if (task != null && task.attemptNumber() > 0) {
            throw new IllegalStateException("EXACTLY_ONCE_RETRY: a task was retried within a run; what its first"
                    + " attempt wrote is unknown: set spark.task.maxFailures=1");
        }
        StructType type = (StructType) source.dataType();
        topicAt = type.fieldIndex("topic");
        partitionAt = type.fieldIndex("partition");
        offsetAt = type.fieldIndex("offset");
        timestampAt = indexOf(type, "timestamp");
        leastAt = indexOf(type, LEAST);
        deliveredOffsets = delivered.value();
        ordinals = new RowOrdinals();
        open = true;
    }

    private static int indexOf(StructType type, String field) {
        return type.getFieldIndex(field).isDefined() ? type.fieldIndex(field) : -1;
    }

    @Override
    public Seq<Expression> children() {
        return RowSteps.sequence(List.of(source));
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
    public String prettyName() {
        return "eagre_identity";
    }
}
