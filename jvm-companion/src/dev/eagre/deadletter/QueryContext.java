package dev.eagre.deadletter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.eagre.spark.PlanTree;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * What a plan says about its query: the name of the pipeline, where its dead letters go, and the identity of
 * the run. The sources write it into the plan as rules of {@link ParseRecord}; functions and operators above
 * them read it from there.
 */
public final class QueryContext {
    private static final String PIPELINE = "pipeline";
    private static final String DEAD_LETTERS = "dead_letters";
    private static final String RUN = "run";
    private static final String NO_PIPELINE = "eagre";

    private QueryContext() {}

    /** The name of the pipeline that a plan belongs to. */
    public static String pipeline(LogicalPlan plan) {
        List<JsonNode> rules = rules(plan);
        return rules.isEmpty() ? NO_PIPELINE : rules.get(0).get(PIPELINE).asText();
    }

    /** Whether options already have the context of a query. */
    public static boolean completes(String options) {
        return ErrorPolicy.read(options).has(PIPELINE);
    }

    /** Adds the context of a plan's query to the options of a function. */
    public static String complete(String options, LogicalPlan plan) {
        ObjectNode completed = (ObjectNode) ErrorPolicy.read(options);
        List<JsonNode> rules = rules(plan);
        completed.put(PIPELINE, rules.isEmpty() ? NO_PIPELINE : rules.get(0).get(PIPELINE).asText());
        completed.set(DEAD_LETTERS, deadLetters(rules));
        completed.set(RUN, rules.isEmpty() ? null : rules.get(0).get(RUN));
        return completed.toString();
    }

    /** The dead-letter topics of all sources; those of a pipeline all name the same ones. */
    private static JsonNode deadLetters(List<JsonNode> rules) {
        ObjectNode merged = null;
        for (JsonNode rule : rules) {
            if (!rule.path(DEAD_LETTERS).isObject()) continue;
            ObjectNode topics = rule.get(DEAD_LETTERS).deepCopy();
            if (merged == null) merged = topics;
            else ((ObjectNode) merged.get("clusters")).setAll((ObjectNode) topics.get("clusters"));
        }
        return merged;
    }

    private static List<JsonNode> rules(LogicalPlan plan) {
        List<JsonNode> rules = new ArrayList<>();
        for (LogicalPlan node : PlanTree.nodes(plan)) {
            PlanTree.list(node.expressions()).forEach(expression -> collect(expression, rules));
        }
        return rules;
    }

    private static void collect(Expression expression, List<JsonNode> rules) {
        if (expression instanceof ParseRecord record) {
            rules.add(ErrorPolicy.read(record.rules().json()));
            return;
        }
        PlanTree.list(expression.children()).forEach(child -> collect(child, rules));
    }
}
