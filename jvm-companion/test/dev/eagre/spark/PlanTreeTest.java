package dev.eagre.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.junit.jupiter.api.Test;
import scala.jdk.javaapi.CollectionConverters;

class PlanTreeTest {
    private final LogicalPlan left = new Distinct(new OneRowRelation());
    private final LogicalPlan right = new OneRowRelation();
    private final LogicalPlan plan =
            new Union(CollectionConverters.asScala(List.of(left, right)).toVector(), false, false);

    private static List<String> names(LogicalPlan plan) {
        return PlanTree.nodes(plan).stream().map(LogicalPlan::nodeName).toList();
    }

    @Test
    void nodesAreListedFromTheTopDown() {
        assertEquals(List.of("Union", "Distinct", "OneRowRelation", "OneRowRelation"), names(plan));
    }

    @Test
    void aSequenceIsCopied() {
        List<LogicalPlan> children = PlanTree.list(plan.children());
        children.clear();
        assertEquals(2, plan.children().size());
    }

    @Test
    void someNodesAreReplaced() {
        LogicalPlan changed =
                PlanTree.replaceNodes(plan, node -> node instanceof Distinct, node -> node.children().head());
        assertEquals(List.of("Union", "OneRowRelation", "OneRowRelation"), names(changed));
        assertEquals(4, names(plan).size(), "the plan itself is unchanged");
    }

    @Test
    void aPlanWithoutSourcesIsTheSamePlan() {
        assertSame(plan, PlanTree.replaceSources(plan, node -> right));
    }

    @Test
    void aLineStaysWithItsNode() {
        left.setTagValue(PlanTree.LINE, "app.py:12");
        LogicalPlan changed = PlanTree.replaceNodes(plan, node -> node instanceof OneRowRelation, node -> new OneRowRelation());
        LogicalPlan distinct = PlanTree.nodes(changed).get(1);
        assertEquals("app.py:12", distinct.getTagValue(PlanTree.LINE).get());
    }
}
