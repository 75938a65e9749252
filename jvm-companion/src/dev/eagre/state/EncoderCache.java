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
 * An encoder of a state variable, resolved once per JVM.
 *
 * <p>Spark runs its analyzer for each state variable when the task of an epoch starts, while rows wait. The
 * result is the same each time, so it is cached here. Each task still creates its own serializers from it.
 */
public final class EncoderCache<T> extends ExpressionEncoder<T> {
    private static final long serialVersionUID = 1;
    private static final Map<Encoder<?>, EncoderCache<?>> CACHE = new ConcurrentHashMap<>();

    private EncoderCache(ExpressionEncoder<T> bound) {
        super(bound.encoder(), bound.objSerializer(), bound.objDeserializer());
    }

    /** The resolved form of one of Spark's public encoders. */
    @SuppressWarnings("unchecked")
    public static <T> EncoderCache<T> of(Encoder<T> encoder) {
        return (EncoderCache<T>) CACHE.computeIfAbsent(encoder, EncoderCache::create);
    }

    private static <T> EncoderCache<T> create(Encoder<T> encoder) {
        ExpressionEncoder<T> raw = ExpressionEncoder.apply((AgnosticEncoder<T>) encoder);
        return new EncoderCache<>(
                raw.resolveAndBind(raw.resolveAndBind$default$1(), raw.resolveAndBind$default$2()));
    }

    @Override
    public ExpressionEncoder<T> resolveAndBind(Seq<Attribute> columns, Analyzer analyzer) {
        return this;
    }
}
