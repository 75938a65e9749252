package dev.eagre.delivery;

import dev.eagre.spark.RowSteps;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Murmur3Hash;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.DeduplicateAllColumnsAsKey$;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionOperation;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Carries the column {@code _source}, the position of the row that triggered a result, through an
 * analyzed plan to its output, even if the user's columns drop it. It rejects plans whose results
 * cannot be identified by it. Written against Spark 4.3.0.
 */
final class Provenance {
    static final String SOURCE = "_source";
    /** The column with the identity of results that are identified by a key. */
    static final String KEY = "_key_of_result";
    private static final String[] FIELDS = {"partition", "offset", "timestamp"};

    /** The columns by which the source is partitioned; empty if none are declared. */
    private final Set<String> aligned;

    private Provenance(Set<String> aligned) {
        this.aligned = aligned;
    }

    /** The plan with the provenance among its columns. */
    static LogicalPlan carried(LogicalPlan plan, List<String> aligned) {
        Provenance provenance = new Provenance(new HashSet<>(aligned));
        provenance.requireReplayable(plan);
        return provenance.carry(plan);
    }

    static Attribute of(LogicalPlan plan) {
        return column(plan, SOURCE);
    }

    private static Attribute column(LogicalPlan plan, String name) {
        for (Attribute column : RowSteps.attributes(plan)) {
            if (column.name().equals(name) && column.dataType() instanceof StructType type && isComplete(type)) {
                return column;
            }
        }
        return null;
    }

    private static boolean isComplete(StructType type) {
        return Arrays.asList(type.fieldNames()).containsAll(List.of("topic", "partition", "offset"));
    }

    private LogicalPlan carry(LogicalPlan plan) {
        if (of(plan) != null && !dropsDuplicates(plan)) return plan;
        if (plan instanceof Project project) return addToProject(project);
        if (plan instanceof Deduplicate deduplicate) return addKeyIdentity(deduplicate);
        if (plan instanceof Aggregate aggregate) return addToAggregate(aggregate);
        if (plan instanceof Union union) return addToUnion(union);
        if (plan instanceof Join join) {
            boolean left = join.left().isStreaming();
            return join.withNewChildren(RowSteps.sequence(List.of(
                    left ? carry(join.left()) : join.left(), left ? join.right() : carry(join.right()))));
        }
        boolean passesThrough = plan instanceof Filter || plan instanceof SubqueryAlias || plan instanceof Generate
                || plan instanceof EventTimeWatermark || plan instanceof View
                || plan instanceof RepartitionOperation || plan instanceof RebalancePartitions;
        if (!passesThrough) {
            throw new UnsupportedPipeline("EXACTLY_ONCE_ORIGIN",
                    "the provenance of a row is lost at " + plan.nodeName() + ", so a replayed row cannot be identified",
                    "keep the column _source in the rows, or use delivery=\"at-least-once\".");
        }
        return plan.withNewChildren(RowSteps.sequence(List.of(carry(plan.children().head()))));
    }

    private LogicalPlan addToProject(Project project) {
        LogicalPlan child = carry(project.child());
        List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(project.projectList()));
        if (of(project) == null) columns.add(of(child));
        Attribute key = column(child, KEY);
        if (key != null) columns.add(key);
        return new Project(RowSteps.sequence(columns), child);
    }

    /**
     * Deduplication keeps the first row of each key, which may be another one in a replay. Its results are
     * therefore identified by the key.
     */
    private LogicalPlan addKeyIdentity(Deduplicate deduplicate) {
        LogicalPlan child = carry(deduplicate.child());
        LogicalPlan deduplicated = deduplicate.withNewChildren(RowSteps.sequence(List.of(child)));
        Attribute source = of(child);
        StructType type = (StructType) source.dataType();
        Seq<Expression> keys = RowSteps.sequence(keys(deduplicate));
        List<Expression> fields = new ArrayList<>(List.of(
                text("topic"), text("*"),
                text("partition"), new Murmur3Hash(keys, 42),
                text("offset"), new XxHash64(keys, 42L)));
        if (Arrays.asList(type.fieldNames()).contains("timestamp")) {
            fields.addAll(List.of(text("timestamp"), field(source, type, "timestamp")));
        }
        List<NamedExpression> columns = new ArrayList<>(RowSteps.attributes(deduplicated));
        columns.add(RowSteps.alias(new CreateNamedStruct(RowSteps.sequence(fields)), KEY));
        return new Project(RowSteps.sequence(columns), deduplicated);
    }

    /** The provenance of a group's latest row; all rows must come from one partition, or the replay filter fails. */
    private LogicalPlan addToAggregate(Aggregate aggregate) {
        LogicalPlan child = carry(aggregate.child());
        Attribute source = of(child);
        StructType type = (StructType) source.dataType();
        List<Expression> fields = new ArrayList<>(List.of(text("topic"), text(topics(child).iterator().next())));
        for (String field : FIELDS) {
            if (!Arrays.asList(type.fieldNames()).contains(field)) continue;
            fields.add(text(field));
            fields.add(over(new Max(field(source, type, field))));
        }
        fields.add(text(ReplayFilter.LEAST));
        fields.add(over(new Min(field(source, type, "partition"))));
        List<NamedExpression> columns =
                new ArrayList<>(CollectionConverters.asJava(aggregate.aggregateExpressions()));
        columns.add(RowSteps.alias(new CreateNamedStruct(RowSteps.sequence(fields)), SOURCE));
        return new Aggregate(aggregate.groupingExpressions(), RowSteps.sequence(columns), child, aggregate.hint());
    }

    private LogicalPlan addToUnion(Union union) {
        List<LogicalPlan> children = new ArrayList<>();
        for (LogicalPlan child : CollectionConverters.asJava(union.children())) {
            LogicalPlan carried = carry(child);
            List<NamedExpression> columns = new ArrayList<>();
            for (Attribute column : RowSteps.attributes(child)) {
                if (!column.name().equals(SOURCE)) columns.add(column);
            }
            columns.add(of(carried));
            children.add(new Project(RowSteps.sequence(columns), carried));
        }
        return new Union(RowSteps.sequence(children), false, false);
    }

    private static Expression field(Attribute source, StructType type, String name) {
        return new GetStructField(source, type.fieldIndex(name), Option.apply(name));
    }

    private static Expression over(AggregateFunction function) {
        return function.toAggregateExpression();
    }

    private static Literal text(String value) {
        return new Literal(UTF8String.fromString(value), DataTypes.StringType);
    }

    /** Rejects plans that produce other results or other positions in a replay. */
    private void requireReplayable(LogicalPlan plan) {
        List<LogicalPlan> nodes = new ArrayList<>();
        collect(plan, nodes);
        List<String> read = new ArrayList<>();
        nodes.forEach(node -> read.addAll(topicsOf(node)));
        if (new HashSet<>(read).size() < read.size()) {
            throw unsupported("reads a topic twice: two results would have the same position",
                    "read the topic once and use explode or eg.flat_map for several results per row.");
        }
        List<LogicalPlan> stateful = nodes.stream().filter(Provenance::isStateful).toList();
        boolean shuffles = nodes.stream().anyMatch(Provenance::isShuffle);
        LogicalPlan lowest = stateful.isEmpty() ? null : stateful.get(stateful.size() - 1);
        for (LogicalPlan node : nodes) {
            boolean fields = isShuffle(node) || isStateful(node) && !(node instanceof Deduplicate);
            if (fields && below(node).stream().anyMatch(Generate.class::isInstance)) {
                throw unsupported("turns one row into several before a shuffle: they would be numbered separately",
                        "explode after the shuffle.");
            }
        }
        boolean hidesKeys = nodes.stream().anyMatch(node -> node instanceof Union
                && below(node).stream().anyMatch(Deduplicate.class::isInstance));
        if (hidesKeys) {
            throw unsupported("unites deduplicated rows with others: in a replay another row of a key may come first",
                    "call dropDuplicates after the union.");
        }
        if (lowest == null) return;
        if (stateful.size() > 1 || shuffles) {
            throw unsupported("shuffles more than once: the order of a key's rows changes in a replay",
                    "write the first half to its own topic, keyed by the second half's key.");
        }
        if (read.size() > 1 && !(lowest instanceof Deduplicate)) {
            throw unsupported("keeps state over several topics: their rows arrive in another order in a replay",
                    "merge them into one topic, keyed by the state's key.");
        }
        if (nodes.stream().anyMatch(EventTimeWatermark.class::isInstance)) {
            throw unsupported("keeps state under a watermark: which rows are late depends on the epochs",
                    "remove the watermark, or write final values to a database sink, which is exact.");
        }
        if (lowest instanceof Deduplicate) keys(lowest);
        else requireAligned(lowest);
    }

    private void requireAligned(LogicalPlan state) {
        if (state instanceof TransformWithState processor && !processor.timeMode().equals(TimeMode.None())) {
            throw unsupported("has timers or a time to live: they fire at another time in a replay",
                    "remove them, or write final values to a database sink, which is exact.");
        }
        Set<String> keys = new HashSet<>();
        for (Expression key : keys(state)) {
            if (key instanceof NamedExpression named) keys.add(named.name());
        }
        if (aligned.isEmpty() || !keys.containsAll(aligned)) {
            throw unsupported("keeps state by " + keys + ", but it is not declared that all rows of a key are in one partition",
                    "if the topic is keyed this way, declare it on the source: partitioned_by=\"KEY\"; otherwise"
                            + " repartition through a topic with this key.");
        }
    }

    private static List<Expression> keys(LogicalPlan state) {
        if (state instanceof Aggregate aggregate) {
            return CollectionConverters.asJava(aggregate.groupingExpressions());
        }
        if (state instanceof TransformWithState processor) {
            return new ArrayList<>(CollectionConverters.asJava(processor.groupingAttributes()));
        }
        if (state instanceof Deduplicate deduplicate) {
            if (deduplicate.dedupSpec().exists(new scala.runtime.AbstractFunction1<>() {
                @Override
                public Object apply(org.apache.spark.sql.catalyst.plans.logical.DeduplicateSpec spec) {
                    return spec.keySpec() == DeduplicateAllColumnsAsKey$.MODULE$;
                }
            })) {
                throw unsupported("drops duplicates by all columns, which include the provenance",
                        "name the columns: dropDuplicates([\"id\"]).");
            }
            return new ArrayList<>(CollectionConverters.asJava(deduplicate.keys()));
        }
        throw unsupported("keeps state in " + state.nodeName() + ", which cannot be replayed",
                "use groupBy().agg(), dropDuplicates([...]) or eg.transform_with_state without timers.");
    }

    private static boolean isStateful(LogicalPlan node) {
        if (!node.isStreaming()) return false;
        if (node instanceof Join join) return join.left().isStreaming() && join.right().isStreaming();
        return node instanceof TransformWithState || node.isStateful();
    }

    /** Whether a plan drops duplicates, so that results are identified by {@link #KEY}. */
    private static boolean dropsDuplicates(LogicalPlan plan) {
        List<LogicalPlan> nodes = new ArrayList<>();
        collect(plan, nodes);
        return nodes.stream().anyMatch(Deduplicate.class::isInstance);
    }

    private static boolean isShuffle(LogicalPlan node) {
        return node instanceof RepartitionOperation || node instanceof RebalancePartitions;
    }

    private static void collect(LogicalPlan plan, List<LogicalPlan> nodes) {
        if (!plan.isStreaming()) return;
        nodes.add(plan);
        for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
            collect(child, nodes);
        }
    }

    private static List<LogicalPlan> below(LogicalPlan plan) {
        List<LogicalPlan> nodes = new ArrayList<>();
        for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
            collect(child, nodes);
        }
        return nodes;
    }

    private static Set<String> topics(LogicalPlan plan) {
        Set<String> topics = new HashSet<>();
        List<LogicalPlan> nodes = new ArrayList<>();
        collect(plan, nodes);
        nodes.forEach(node -> topics.addAll(topicsOf(node)));
        return topics;
    }

    private static List<String> topicsOf(LogicalPlan node) {
        if (!(node instanceof StreamingRelationV2 relation)) return List.of();
        String topics = relation.extraOptions().get("subscribe");
        return topics == null ? List.of() : List.of(topics.split(","));
    }

    private static UnsupportedPipeline unsupported(String problem, String hint) {
        return new UnsupportedPipeline("EXACTLY_ONCE_SHAPE", "the pipeline " + problem, hint);
    }
}
