package dev.eagre.state;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoder;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import scala.collection.immutable.Seq;

/**
 * An encoder of a state variable that was made ready once in this JVM.
 *
 * <p>Spark runs its analyser for each state variable when the task of an epoch starts, while rows wait. What
 * it finds is the same each time, and is kept here; serializers are made of it anew for each task.
 */
public final class EncoderCache<T> extends ExpressionEncoder<T> {
    private static final long serialVersionUID = 1;
    private static final Map<Encoder<?>, EncoderCache<?>> MADE = new ConcurrentHashMap<>();

    private EncoderCache(ExpressionEncoder<T> bound) {
        super(bound.encoder(), bound.objSerializer(), bound.objDeserializer());
    }

    /** The same as one of Spark's public encoders, ready for use. */
    @SuppressWarnings("unchecked")
    public static <T> EncoderCache<T> of(Encoder<T> encoder) {
        return (EncoderCache<T>) MADE.computeIfAbsent(encoder, EncoderCache::made);
    }

    private static <T> EncoderCache<T> made(Encoder<T> encoder) {
        ExpressionEncoder<T> raw = ExpressionEncoder.apply((AgnosticEncoder<T>) encoder);
        return new EncoderCache<>(
                raw.resolveAndBind(raw.resolveAndBind$default$1(), raw.resolveAndBind$default$2()));
    }

    @Override
    public ExpressionEncoder<T> resolveAndBind(Seq<Attribute> columns, Analyzer analyzer) {
        return this;
    }
}
