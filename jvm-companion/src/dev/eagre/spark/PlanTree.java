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

/** A plan as a tree: its nodes, the lines that made them, and others in their place. */
public final class PlanTree {
    /** The line of the user's file that made a node. */
    public static final TreeNodeTag<String> LINE = new TreeNodeTag<>("eagre.line");

    private PlanTree() {}

    public static List<LogicalPlan> nodes(LogicalPlan plan) {
        List<LogicalPlan> found = new ArrayList<>();
        found.add(plan);
        list(plan.children()).forEach(child -> found.addAll(nodes(child)));
        return found;
    }

    public static <T> List<T> list(scala.collection.Seq<? extends T> seq) {
        return new ArrayList<>(CollectionConverters.asJava(seq));
    }

    /** Puts something else in the place of each streaming source, from the top of the plan down. */
    public static LogicalPlan swapped(LogicalPlan plan, UnaryOperator<LogicalPlan> swap) {
        return replaced(plan, node -> node instanceof StreamingRelationV2 || node instanceof StreamingRelation, swap);
    }

    /** Puts something else in the place of some nodes, from the top of the plan down. */
    public static LogicalPlan replaced(LogicalPlan plan, Predicate<LogicalPlan> some, UnaryOperator<LogicalPlan> other) {
        return plan.transform(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
            @Override
            public boolean isDefinedAt(LogicalPlan node) {
                return some.test(node);
            }

            @Override
            public LogicalPlan apply(LogicalPlan node) {
                return other.apply(node);
            }
        });
    }
}
