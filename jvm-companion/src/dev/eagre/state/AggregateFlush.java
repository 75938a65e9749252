package dev.eagre.state;

import dev.eagre.commit.Barrier;
import dev.eagre.spark.AggregateIterator;
import dev.eagre.spark.PhysicalRule;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.StatefulStreamlineAggregateExec;
import org.apache.spark.sql.execution.streaming.runtime.RealTimeModeAllowlist;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * A plan node above an aggregate that passes its rows through unchanged. Spark's aggregate buffers the latest
 * thousand keys and writes them into the state at the epoch boundary. This node also flushes them for a mid-epoch
 * commit.
 */
public final class AggregateFlush extends SparkPlan {
    private static final String SETTING = "spark.eagre.aggregateFlush";

    private final SparkPlan aggregate;

    private AggregateFlush(SparkPlan aggregate) {
        this.aggregate = aggregate;
    }

    /** Adds the node above each aggregate of the queries that enable it. */
    public static void inject(SparkSessionExtensions extensions) {
        PhysicalRule.inject(extensions, plan -> {
            if (!"true".equals(SQLConf.get().getConfString(SETTING, "false"))) return plan;
            // Spark's own check of the plan is off, because it does not know this node.
            RealTimeModeAllowlist.checkAllowedPhysicalOperator(plan, true);
            return wrapAggregates(plan);
        });
    }

    private static SparkPlan wrapAggregates(SparkPlan plan) {
        List<SparkPlan> children =
                CollectionConverters.asJava(plan.children()).stream().map(AggregateFlush::wrapAggregates).toList();
        SparkPlan rebuilt = plan.withNewChildren(CollectionConverters.asScala(children).toVector());
        return rebuilt instanceof StatefulStreamlineAggregateExec ? new AggregateFlush(rebuilt) : rebuilt;
    }

    @Override
    public RDD<InternalRow> doExecute() {
        return aggregate.execute().mapPartitions(new RegisterFlush(), true, ClassTag$.MODULE$.apply(InternalRow.class));
    }

    private static final class RegisterFlush extends AbstractFunction1<Iterator<InternalRow>, Iterator<InternalRow>>
            implements Serializable {
        @Override
        public Iterator<InternalRow> apply(Iterator<InternalRow> rows) {
            Barrier.onFlush(TaskContext.get(), AggregateIterator.of(rows)::completion);
            return rows;
        }
    }

    @Override
    public Seq<Attribute> output() {
        return aggregate.output();
    }

    @Override
    public Seq<SparkPlan> children() {
        return CollectionConverters.asScala(List.of(aggregate)).toVector();
    }

    @Override
    public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> changed) {
        return new AggregateFlush(changed.head());
    }

    @Override
    public int productArity() {
        return 1;
    }

    @Override
    public Object productElement(int index) {
        return aggregate;
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof AggregateFlush;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof AggregateFlush that && aggregate.equals(that.aggregate);
    }

    @Override
    public int hashCode() {
        return 31 * aggregate.hashCode();
    }
}
