package dev.eagre.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** How the rows of a query pass through its plan. */
public final class PlanShape {
    private PlanShape() {}

    /** Whether each row is processed before the next one is read: nothing buffers, sorts or joins rows. */
    public static boolean rowByRow(Dataset<Row> rows) {
        LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().analyzed();
        return !plan.exists(new AbstractFunction1<>() {
            @Override
            public Object apply(LogicalPlan node) {
                return !(isStateless(node) || node instanceof EventTimeWatermark);
            }
        });
    }

    /** Whether the rows of a record stay together, in their order: no row waits, and no topic is read twice. */
    public static boolean keepsRecordsTogether(Dataset<Row> rows) {
        LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().analyzed();
        List<LogicalPlan> sources = new ArrayList<>(CollectionConverters.asJava(plan.collectLeaves()));
        Set<String> topics = new HashSet<>();
        for (LogicalPlan source : sources) {
            String names = source instanceof StreamingRelationV2 relation
                    ? relation.extraOptions().get("subscribe")
                    : null;
            if (names == null) return rowByRow(rows) && sources.size() == 1;
            for (String topic : names.split(",")) {
                if (!topics.add(topic)) return false;
            }
        }
        return rowByRow(rows);
    }

    /** Whether a node processes each row by itself, and keeps no state. */
    public static boolean isStateless(LogicalPlan node) {
        return node instanceof Project || node instanceof Filter || node instanceof Generate
                || node instanceof SubqueryAlias || node instanceof Union || node instanceof StreamingRelationV2;
    }
}
