package dev.eagre.spark;

import java.util.function.UnaryOperator;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import scala.runtime.AbstractFunction1;

/** A rule that changes physical plans. Spark offers no public place for one but that of columnar rules. */
public final class PhysicalRule extends Rule<SparkPlan> {
    private final UnaryOperator<SparkPlan> change;

    private PhysicalRule(UnaryOperator<SparkPlan> change) {
        this.change = change;
    }

    @Override
    public SparkPlan apply(SparkPlan plan) {
        return change.apply(plan);
    }

    /** Applies a change to every physical plan, before code is generated for it. */
    public static void inject(SparkSessionExtensions extensions, UnaryOperator<SparkPlan> change) {
        ColumnarRule columnar = new ColumnarRule() {
            @Override
            public Rule<SparkPlan> postColumnarTransitions() {
                return new PhysicalRule(change);
            }
        };
        extensions.injectColumnar(new AbstractFunction1<>() {
            @Override
            public ColumnarRule apply(SparkSession session) {
                return columnar;
            }
        });
    }
}
