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

/** The nodes of a query before Spark plans it, with what rules ask of each. */
final class LogicalFacts {
    private LogicalFacts() {}

    static List<Map<String, Object>> of(LogicalPlan plan) {
        List<Map<String, Object>> told = new ArrayList<>();
        for (LogicalPlan node : PlanTree.nodes(plan)) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("name", node.nodeName());
            one.put("line", node.getTagValue(PlanTree.LINE).getOrElse(() -> ""));
            one.put("streaming", node.isStreaming());
            one.put("stateful", node.isStateful());
            detail(node, one);
            told.add(one);
        }
        return told;
    }

    private static void detail(LogicalPlan node, Map<String, Object> one) {
        if (node instanceof Aggregate a) {
            one.put("keys", ExpressionFacts.texts(PlanTree.list(a.groupingExpressions())));
            one.put("bounded", anyEventTime(a.groupingExpressions()));
            one.put("session", marked(a.groupingExpressions(), "spark.sessionWindow"));
        } else if (node instanceof Deduplicate d) {
            one.put("keys", ExpressionFacts.texts(PlanTree.list(d.keys())));
            one.put("bounded", anyEventTime(d.keys()));
        } else if (node instanceof Distinct d) {
            one.put("bounded", anyEventTime(d.child().output()));
        } else if (node instanceof EventTimeWatermark w) {
            one.put("delay_ms", w.delay().microseconds / 1000 + w.delay().days * 86_400_000L);
        } else if (node instanceof TransformWithState t) {
            one.put("processor", t.statefulProcessor().getClass().getName());
            one.put("time_mode", t.timeMode().toString());
        } else if (node.nodeName().equals("Join")) {
            List<LogicalPlan> sides = PlanTree.list(node.children());
            one.put("streams", sides.stream().filter(LogicalPlan::isStreaming).count());
        }
    }

    private static boolean anyEventTime(scala.collection.Seq<? extends Expression> keys) {
        return marked(keys, EventTimeWatermark.delayKey());
    }

    private static boolean marked(scala.collection.Seq<? extends Expression> keys, String key) {
        return PlanTree.list(keys).stream()
                .anyMatch(e -> e instanceof NamedExpression n && n.metadata().contains(key));
    }
}
