package dev.eagre.plan;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.spark.PlanTree;
import dev.eagre.spark.StreamWriterFields;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.functions;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Runs the query as a batch over a sample of existing records, to count its keys. */
final class KeySample {
    private static final TreeNodeTag<String> SAMPLED = new TreeNodeTag<>("eagre.sampled");

    private final SparkSession session;
    private final LogicalPlan analyzed;
    private final JsonNode ranges;
    private int sources;

    KeySample(StreamWriterFields write, JsonNode ranges) {
        this.session = write.rows.sparkSession().cloneSession();
        this.analyzed = write.rows.queryExecution().analyzed();
        this.ranges = ranges;
    }

    List<Map<String, Object>> count() {
        List<Map<String, Object>> counts = new ArrayList<>();
        for (LogicalPlan node : PlanTree.nodes(read())) {
            List<Expression> keys = keys(node);
            boolean streams = PlanTree.nodes(node).stream()
                    .anyMatch(below -> below.getTagValue(SAMPLED).isDefined());
            if (!keys.isEmpty() && streams) {
                counts.add(count(node.children().head(), keys));
            }
        }
        return counts;
    }

    private static List<Expression> keys(LogicalPlan node) {
        if (node instanceof Aggregate a) {
            return PlanTree.list(a.groupingExpressions());
        }
        if (node instanceof Deduplicate d) {
            return PlanTree.list(d.keys());
        }
        return node instanceof TransformWithState t
                ? PlanTree.list(t.groupingAttributes())
                : List.of();
    }

    private Map<String, Object> count(LogicalPlan child, List<Expression> keys) {
        Column[] columns = keys.stream()
                .map(org.apache.spark.sql.classic.ExpressionUtils$.MODULE$::column)
                .toArray(Column[]::new);
        Row counted = Dataset.ofRows(session, child)
                .groupBy(columns)
                .count()
                .agg(functions.max("count"), functions.sum("count"))
                .head();
        boolean empty = counted.isNullAt(0);
        return Map.of(
                "keys", ExpressionFacts.texts(keys),
                "most", empty ? 0 : counted.getLong(0),
                "rows", empty ? 0 : counted.getLong(1));
    }

    private LogicalPlan read() {
        return PlanTree.replaceSources(analyzed, node -> {
            JsonNode range = ranges.path(sources++);
            return node instanceof StreamingRelationV2 source && range.has("begin")
                    ? batch(source, range)
                    : node;
        });
    }

    /** Reads a range of the topic, with the column ids of the query. */
    private LogicalPlan batch(StreamingRelationV2 source, JsonNode range) {
        Map<String, String> options = new TreeMap<>(source.extraOptions());
        options.keySet().removeIf(key -> key.startsWith("starting") || key.startsWith("max")
                || key.startsWith("min"));
        LogicalPlan read = session.read()
                .format("kafka")
                .options(options)
                .option("startingOffsets", range.get("begin").toString())
                .option("endingOffsets", range.get("end").toString())
                .load()
                .queryExecution()
                .analyzed();
        List<NamedExpression> columns = new ArrayList<>();
        for (AttributeReference column : PlanTree.list(source.output())) {
            Attribute match = PlanTree.list(read.output()).stream()
                    .filter(a -> a.name().equals(column.name()))
                    .findFirst()
                    .orElseThrow();
            columns.add(new Alias(match, column.name(), column.exprId(), column.qualifier(),
                    Option.empty(), Alias$.MODULE$.$lessinit$greater$default$6(match, "")));
        }
        var sampled = new Project(CollectionConverters.asScala(columns).toSeq(), read);
        sampled.setTagValue(SAMPLED, "");
        return sampled;
    }
}
