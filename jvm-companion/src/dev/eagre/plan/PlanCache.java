package dev.eagre.plan;

import dev.eagre.spark.PlanTree;
import dev.eagre.spark.PrivateMember;
import dev.eagre.spark.SparkInternals;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.optimizer.Optimizer;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.SparkOptimizer;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.V2Writes;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSource;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;

/**
 * Plans an epoch from the plan of the one before.
 *
 * <p>At the end of each epoch Spark analyses and optimises the whole query again, while no row is processed.
 * From one epoch to the next only the offsets where its sources begin have changed, and the number of the
 * epoch. Where that is so, the optimised plan of the epoch before is taken with the new offsets; where
 * anything else may differ (the current time, a table of a catalog), Spark does as it always does.
 *
 * <p>Needs two private fields of the session that a query runs in; where they are not what they were in
 * Spark 4.3, nothing is changed.
 */
public final class PlanCache {
    private PlanCache() {}

    /** Lets a query plan its epochs from the one before. */
    public static void install(StreamingQuery query) {
        SessionState state = SparkInternals.execution(query).sparkSessionForStream().sessionState();
        if (state.analyzer() instanceof CachingAnalyzer || !PrivateMember.SESSION_PLANNER.available()) return;
        PrivateMember.SESSION_PLANNER.write("analyzer", state, new CachingAnalyzer(state.analyzer()));
        PrivateMember.SESSION_PLANNER.write("optimizer", state, new CachingOptimizer(state));
    }

    /** A plan without what changes from epoch to epoch; null for one that must be planned again each time. */
    private static LogicalPlan shape(LogicalPlan plan) {
        if (!(plan instanceof WriteToMicroBatchDataSource root)) return null;
        if (plan.containsPattern(TreePattern.CURRENT_LIKE())) return null;
        if (plan.containsPattern(TreePattern.PLAN_EXPRESSION())) return null;
        if (!PlanTree.list(plan.collectLeaves()).stream().allMatch(PlanCache::stays)) return null;
        LogicalPlan query = moved(root.query(), scan -> at(scan, Option.empty(), Option.empty()));
        return written(root, query, Option.empty());
    }

    /** Whether planning anew would find the same behind a leaf: a table of a catalog may have changed since. */
    private static boolean stays(LogicalPlan leaf) {
        return leaf instanceof StreamingDataSourceV2ScanRelation
                || leaf instanceof LocalRelation
                || leaf instanceof LogicalRDD
                || leaf instanceof LogicalRelation table
                        && table.relation() instanceof HadoopFsRelation files
                        && files.location() instanceof InMemoryFileIndex;
    }

    private static LogicalPlan moved(
            LogicalPlan query, Function<StreamingDataSourceV2ScanRelation, LogicalPlan> elsewhere) {
        return PlanTree.replaceNodes(
                query,
                node -> node instanceof StreamingDataSourceV2ScanRelation,
                node -> elsewhere.apply((StreamingDataSourceV2ScanRelation) node));
    }

    private static WriteToMicroBatchDataSource written(
            WriteToMicroBatchDataSource root, LogicalPlan query, Option<Object> epoch) {
        return new WriteToMicroBatchDataSource(
                root.relation(), query, root.queryId(), root.writeOptions(), root.outputMode(), epoch);
    }

    private static StreamingDataSourceV2ScanRelation at(
            StreamingDataSourceV2ScanRelation scan, Option<Offset> start, Option<Offset> end) {
        return scan.copy(scan.relation(), scan.scan(), scan.output(), scan.stream(), start, end);
    }

    /** Analyses a plan of a new shape only: one that Spark's own left as it was, it leaves so again. */
    private static final class CachingAnalyzer extends Analyzer {
        private final Analyzer sparks;
        private volatile LogicalPlan known;

        CachingAnalyzer(Analyzer sparks) {
            super(sparks.catalogManager(), sparks.sharedRelationCache(), sparks.sessionConf());
            this.sparks = sparks;
        }

        @Override
        public LogicalPlan executeAndCheck(LogicalPlan plan, QueryPlanningTracker tracker) {
            if (plan.analyzed()) return plan;
            LogicalPlan shape = shape(plan);
            if (shape != null && shape.equals(known)) {
                plan.setAnalyzed();
                return plan;
            }
            LogicalPlan analyzed = sparks.executeAndCheck(plan, tracker);
            known = shape != null && analyzed.equals(plan) ? shape : null;
            return analyzed;
        }

        @Override
        public LogicalPlan execute(LogicalPlan plan) {
            return sparks.execute(plan);
        }

        @Override
        public LogicalPlan executeAndTrack(LogicalPlan plan, QueryPlanningTracker tracker) {
            return sparks.executeAndTrack(plan, tracker);
        }

        @Override
        public void checkAnalysis(LogicalPlan plan) {
            sparks.checkAnalysis(plan);
        }

        @Override
        public Analyzer withCatalogManager(CatalogManager catalogs) {
            return sparks.withCatalogManager(catalogs);
        }
    }

    /** Optimises a plan of a new shape only. Spark calls the root's class deprecated, and its streams have no other. */
    @SuppressWarnings("deprecation")
    private static final class CachingOptimizer extends SparkOptimizer {
        private record Kept(LogicalPlan shape, LogicalPlan query) {}

        private final Optimizer sparks;
        private volatile Kept kept;

        CachingOptimizer(SessionState state) {
            super(state.catalogManager(), state.catalog(), state.experimentalMethods());
            sparks = state.optimizer();
        }

        @Override
        public LogicalPlan execute(LogicalPlan plan) {
            return sparks.execute(plan);
        }

        @Override
        public LogicalPlan executeAndTrack(LogicalPlan plan, QueryPlanningTracker tracker) {
            LogicalPlan shape = shape(plan);
            Kept before = kept;
            if (shape != null && before != null && shape.equals(before.shape)) {
                LogicalPlan again = again((WriteToMicroBatchDataSource) plan, before.query);
                if (again != null) return again;
            }
            LogicalPlan optimized = sparks.executeAndTrack(plan, tracker);
            kept = shape != null && optimized instanceof WriteToDataSourceV2 root ? new Kept(shape, root.query()) : null;
            return optimized;
        }

        /** The kept plan with a new epoch's offsets and number; null where its write would change the plan. */
        private static LogicalPlan again(WriteToMicroBatchDataSource epoch, LogicalPlan kept) {
            Map<SparkDataStream, StreamingDataSourceV2ScanRelation> now = new IdentityHashMap<>();
            for (LogicalPlan leaf : PlanTree.list(epoch.query().collectLeaves())) {
                if (leaf instanceof StreamingDataSourceV2ScanRelation scan) now.put(scan.stream(), scan);
            }
            LogicalPlan query = moved(kept, scan -> {
                StreamingDataSourceV2ScanRelation begins = now.get(scan.stream());
                return at(scan, begins.startOffset(), begins.endOffset());
            });
            return V2Writes.apply(written(epoch, query, epoch.batchId())) instanceof WriteToDataSourceV2 written
                            && written.query() == query
                    ? written
                    : null;
        }
    }
}
