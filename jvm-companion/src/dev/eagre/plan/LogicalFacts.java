package dev.eagre.plan;

import dev.eagre.spark.PlanTree;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;

/** The nodes of a query before Spark plans it, with the facts that the check's rules need. */
final class LogicalFacts {
    private LogicalFacts() {}

    static List<Map<String, Object>> of(LogicalPlan plan) {
        List<Map<String, Object>> facts = new ArrayList<>();
        for (LogicalPlan node : PlanTree.nodes(plan)) {
            Map<String, Object> fact = new LinkedHashMap<>();
            fact.put("name", node.nodeName());
            fact.put("line", node.getTagValue(PlanTree.LINE).getOrElse(() -> ""));
            fact.put("streaming", node.isStreaming());
            fact.put("stateful", node.isStateful());
            detail(node, fact);
            facts.add(fact);
        }
        return facts;
    }

    private static void detail(LogicalPlan node, Map<String, Object> fact) {
        if (node instanceof Aggregate a) {
            fact.put("keys", ExpressionFacts.texts(PlanTree.list(a.groupingExpressions())));
            fact.put("bounded", anyEventTime(a.groupingExpressions()));
            fact.put("session", hasMetadata(a.groupingExpressions(), "spark.sessionWindow"));
        } else if (node instanceof Deduplicate d) {
            fact.put("keys", ExpressionFacts.texts(PlanTree.list(d.keys())));
            fact.put("bounded", anyEventTime(d.keys()));
        } else if (node instanceof Distinct d) {
            fact.put("bounded", anyEventTime(d.child().output()));
        } else if (node instanceof EventTimeWatermark w) {
            fact.put("delay_ms", w.delay().microseconds / 1000 + w.delay().days * 86_400_000L);
        } else if (node instanceof TransformWithState t) {
            fact.put("processor", t.statefulProcessor().getClass().getName());
            fact.put("time_mode", t.timeMode().toString());
        } else if (node.nodeName().equals("Join")) {
            List<LogicalPlan> sides = PlanTree.list(node.children());
            fact.put("streams", sides.stream().filter(LogicalPlan::isStreaming).count());
        }
    }

    private static boolean anyEventTime(scala.collection.Seq<? extends Expression> keys) {
        return hasMetadata(keys, EventTimeWatermark.delayKey());
    }

    private static boolean hasMetadata(scala.collection.Seq<? extends Expression> keys, String key) {
        return PlanTree.list(keys).stream()
                .anyMatch(e -> e instanceof NamedExpression n && n.metadata().contains(key));
    }
}
