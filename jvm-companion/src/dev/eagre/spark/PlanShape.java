package dev.eagre.spark;

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

    /** Whether a node processes each row by itself, and keeps no state. */
    public static boolean isStateless(LogicalPlan node) {
        return node instanceof Project || node instanceof Filter || node instanceof Generate
                || node instanceof SubqueryAlias || node instanceof Union || node instanceof StreamingRelationV2;
    }
}
