package dev.eagre;

import dev.eagre.commit.ReaderTracking;
import dev.eagre.python.CallFunctions;
import dev.eagre.python.FunctionContextRule;
import dev.eagre.python.PrefetchRule;
import dev.eagre.spark.ExtensionProviders;
import dev.eagre.state.AggregateFlush;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** The class in {@code spark.sql.extensions}: adds the rules for Python in a plan, and the extensions that Spark would load. */
public final class SqlExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        extensions.injectPostHocResolutionRule(always(new FunctionContextRule()));
        extensions.injectPreCBORule(always(new CallFunctions()));
        extensions.injectPreCBORule(always(new PrefetchRule()));
        ReaderTracking.inject(extensions);
        AggregateFlush.inject(extensions);
        ExtensionProviders.apply(extensions);
        return BoxedUnit.UNIT;
    }

    private static AbstractFunction1<SparkSession, Rule<LogicalPlan>> always(Rule<LogicalPlan> rule) {
        return new AbstractFunction1<>() {
            @Override
            public Rule<LogicalPlan> apply(SparkSession session) {
                return rule;
            }
        };
    }
}
