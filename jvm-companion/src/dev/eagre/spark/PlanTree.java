package dev.eagre.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Reads and rewrites plans as trees of nodes. */
public final class PlanTree {
    /** The line of the user's file that created a node. */
    public static final TreeNodeTag<String> LINE = new TreeNodeTag<>("eagre.line");

    private PlanTree() {}

    public static List<LogicalPlan> nodes(LogicalPlan plan) {
        List<LogicalPlan> nodes = new ArrayList<>();
        nodes.add(plan);
        list(plan.children()).forEach(child -> nodes.addAll(nodes(child)));
        return nodes;
    }

    public static <T> List<T> list(scala.collection.Seq<? extends T> seq) {
        return new ArrayList<>(CollectionConverters.asJava(seq));
    }

    /** Replaces each streaming source, from the top of the plan down. */
    public static LogicalPlan replaceSources(LogicalPlan plan, UnaryOperator<LogicalPlan> replacement) {
        return replaceNodes(plan, node -> node instanceof StreamingRelationV2 || node instanceof StreamingRelation, replacement);
    }

    /** Replaces the nodes that match a condition, from the top of the plan down. */
    public static LogicalPlan replaceNodes(LogicalPlan plan, Predicate<LogicalPlan> condition, UnaryOperator<LogicalPlan> replacement) {
        return plan.transform(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
            @Override
            public boolean isDefinedAt(LogicalPlan node) {
                return condition.test(node);
            }

            @Override
            public LogicalPlan apply(LogicalPlan node) {
                return replacement.apply(node);
            }
        });
    }
}
