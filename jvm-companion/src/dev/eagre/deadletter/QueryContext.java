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
        return name(chosen(rules(plan)));
    }

    /** Whether options already have the context of a query. */
    public static boolean completes(String options) {
        return ErrorPolicy.read(options).has(PIPELINE);
    }

    /** Whether a plan names its query: it has a source. */
    public static boolean isIn(LogicalPlan plan) {
        return !sources(plan).isEmpty();
    }

    /** Adds the context of a plan's query to the options of a function. */
    public static String complete(String options, LogicalPlan plan) {
        ObjectNode completed = (ObjectNode) ErrorPolicy.read(options);
        List<JsonNode> rules = rules(plan);
        JsonNode chosen = chosen(rules);
        completed.put(PIPELINE, name(chosen));
        completed.set(DEAD_LETTERS, deadLetters(chosen, rules));
        completed.set(RUN, chosen == null ? null : chosen.get(RUN));
        return completed.toString();
    }

    /** The error policy of a pipeline's source, for the operators above it; rows without a source are dropped. */
    public static String policy(LogicalPlan plan) {
        JsonNode chosen = chosen(rules(plan));
        String onError = chosen == null ? "drop" : chosen.get("on_error").asText();
        return complete("{\"on_error\":\"" + onError + "\"}", plan);
    }

    /** The rules of a pipeline's source, rather than those of a topic that is read beside it. */
    private static JsonNode chosen(List<JsonNode> rules) {
        JsonNode first = rules.isEmpty() ? null : rules.get(0);
        return rules.stream().filter(rule -> !name(rule).equals(NO_PIPELINE)).findFirst().orElse(first);
    }

    private static String name(JsonNode rule) {
        return rule == null ? NO_PIPELINE : rule.get(PIPELINE).asText();
    }

    /** The dead-letter topics of all sources; those of a pipeline all name the same ones. */
    private static JsonNode deadLetters(JsonNode chosen, List<JsonNode> rules) {
        ObjectNode merged = chosen != null && chosen.path(DEAD_LETTERS).isObject() ? chosen.get(DEAD_LETTERS).deepCopy() : null;
        for (JsonNode rule : rules) {
            if (!rule.path(DEAD_LETTERS).isObject()) continue;
            if (merged == null) merged = rule.get(DEAD_LETTERS).deepCopy();
            else ((ObjectNode) merged.get("clusters")).setAll((ObjectNode) rule.get(DEAD_LETTERS).get("clusters").deepCopy());
        }
        return merged;
    }

    private static List<JsonNode> rules(LogicalPlan plan) {
        return sources(plan).stream().map(source -> ErrorPolicy.read(source.rules().json())).toList();
    }

    /** The expressions that parse the records of a plan's sources. */
    static List<ParseRecord> sources(LogicalPlan plan) {
        List<ParseRecord> sources = new ArrayList<>();
        for (LogicalPlan node : PlanTree.nodes(plan)) {
            PlanTree.list(node.expressions()).forEach(expression -> collect(expression, sources));
        }
        return sources;
    }

    private static void collect(Expression expression, List<ParseRecord> sources) {
        if (expression instanceof ParseRecord source) {
            sources.add(source);
            return;
        }
        PlanTree.list(expression.children()).forEach(child -> collect(child, sources));
    }
}
