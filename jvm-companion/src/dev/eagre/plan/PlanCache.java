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
 * Plans an epoch from the plan of the previous epoch.
 *
 * <p>At each epoch boundary Spark analyzes and optimizes the whole query again, while no row is processed. Between
 * two epochs usually only the starting offsets of the sources and the number of the epoch change. In that case the
 * cache reuses the previous optimized plan with the new offsets. If anything else may differ, such as the current
 * time or a catalog table, Spark plans the epoch as usual.
 *
 * <p>It needs two private fields of the query's session. If they differ from Spark 4.3, nothing is changed.
 */
public final class PlanCache {
    private PlanCache() {}

    /** Installs the cache in a query's session. */
    public static void install(StreamingQuery query) {
        SessionState state = SparkInternals.execution(query).sparkSessionForStream().sessionState();
        if (state.analyzer() instanceof CachingAnalyzer || !PrivateMember.SESSION_PLANNER.available()) return;
        SparkInternals.replacePlanner(state, new CachingAnalyzer(state.analyzer()), new CachingOptimizer(state));
    }

    /** A plan without the parts that change between epochs; null if it must be planned again each time. */
    private static LogicalPlan shape(LogicalPlan plan) {
        if (!(plan instanceof WriteToMicroBatchDataSource root)) return null;
        if (plan.containsPattern(TreePattern.CURRENT_LIKE())) return null;
        if (plan.containsPattern(TreePattern.PLAN_EXPRESSION())) return null;
        if (!PlanTree.list(plan.collectLeaves()).stream().allMatch(PlanCache::isStable)) return null;
        LogicalPlan query = withOffsets(root.query(), scan -> at(scan, Option.empty(), Option.empty()));
        return withWrite(root, query, Option.empty());
    }

    /** Whether planning a leaf again would give the same result; a catalog table may have changed. */
    private static boolean isStable(LogicalPlan leaf) {
        return leaf instanceof StreamingDataSourceV2ScanRelation
                || leaf instanceof LocalRelation
                || leaf instanceof LogicalRDD
                || leaf instanceof LogicalRelation table
                        && table.relation() instanceof HadoopFsRelation files
                        && files.location() instanceof InMemoryFileIndex;
    }

    private static LogicalPlan withOffsets(
            LogicalPlan query, Function<StreamingDataSourceV2ScanRelation, LogicalPlan> replacement) {
        return PlanTree.replaceNodes(
                query,
                node -> node instanceof StreamingDataSourceV2ScanRelation,
                node -> replacement.apply((StreamingDataSourceV2ScanRelation) node));
    }

    private static WriteToMicroBatchDataSource withWrite(
            WriteToMicroBatchDataSource root, LogicalPlan query, Option<Object> epoch) {
        return new WriteToMicroBatchDataSource(
                root.relation(), query, root.queryId(), root.writeOptions(), root.outputMode(), epoch);
    }

    private static StreamingDataSourceV2ScanRelation at(
            StreamingDataSourceV2ScanRelation scan, Option<Offset> start, Option<Offset> end) {
        return scan.copy(scan.relation(), scan.scan(), scan.output(), scan.stream(), start, end);
    }

    /** Analyzes only plans of a new shape; a plan that Spark's analyzer left unchanged is not analyzed again. */
    private static final class CachingAnalyzer extends Analyzer {
        private final Analyzer delegate;
        private volatile LogicalPlan cachedShape;

        CachingAnalyzer(Analyzer delegate) {
            super(delegate.catalogManager(), delegate.sharedRelationCache(), delegate.sessionConf());
            this.delegate = delegate;
        }

        @Override
        public LogicalPlan executeAndCheck(LogicalPlan plan, QueryPlanningTracker tracker) {
            if (plan.analyzed()) return plan;
            LogicalPlan shape = shape(plan);
            if (shape != null && shape.equals(cachedShape)) {
                plan.setAnalyzed();
                return plan;
            }
            LogicalPlan analyzed = delegate.executeAndCheck(plan, tracker);
            cachedShape = shape != null && analyzed.equals(plan) ? shape : null;
            return analyzed;
        }

        @Override
        public LogicalPlan execute(LogicalPlan plan) {
            return delegate.execute(plan);
        }

        @Override
        public LogicalPlan executeAndTrack(LogicalPlan plan, QueryPlanningTracker tracker) {
            return delegate.executeAndTrack(plan, tracker);
        }

        @Override
        public void checkAnalysis(LogicalPlan plan) {
            delegate.checkAnalysis(plan);
        }

        @Override
        public Analyzer withCatalogManager(CatalogManager catalogs) {
            return delegate.withCatalogManager(catalogs);
        }
    }

    /** Optimizes only plans of a new shape. The root's class is deprecated, but Spark's streams have no other. */
    @SuppressWarnings("deprecation")
    private static final class CachingOptimizer extends SparkOptimizer {
        private record CachedPlan(LogicalPlan shape, LogicalPlan query) {}

        private final Optimizer delegate;
        private volatile CachedPlan cached;

        CachingOptimizer(SessionState state) {
            super(state.catalogManager(), state.catalog(), state.experimentalMethods());
            delegate = state.optimizer();
        }

        @Override
        public LogicalPlan execute(LogicalPlan plan) {
            return delegate.execute(plan);
        }

        @Override
        public LogicalPlan executeAndTrack(LogicalPlan plan, QueryPlanningTracker tracker) {
            LogicalPlan shape = shape(plan);
            CachedPlan before = cached;
            if (shape != null && before != null && shape.equals(before.shape)) {
                LogicalPlan replan = replan((WriteToMicroBatchDataSource) plan, before.query);
                if (replan != null) return replan;
            }
            LogicalPlan optimized = delegate.executeAndTrack(plan, tracker);
            cached = shape != null && optimized instanceof WriteToDataSourceV2 root ? new CachedPlan(shape, root.query()) : null;
            return optimized;
        }

        /** The cached plan with the offsets and number of a new epoch; null if its write would change the plan. */
        private static LogicalPlan replan(WriteToMicroBatchDataSource epoch, LogicalPlan cached) {
            Map<SparkDataStream, StreamingDataSourceV2ScanRelation> scans = new IdentityHashMap<>();
            for (LogicalPlan leaf : PlanTree.list(epoch.query().collectLeaves())) {
                if (leaf instanceof StreamingDataSourceV2ScanRelation scan) scans.put(scan.stream(), scan);
            }
            LogicalPlan query = withOffsets(cached, scan -> {
                StreamingDataSourceV2ScanRelation current = scans.get(scan.stream());
                return at(scan, current.startOffset(), current.endOffset());
            });
            return V2Writes.apply(withWrite(epoch, query, epoch.batchId())) instanceof WriteToDataSourceV2 write
                            && write.query() == query
                    ? write
                    : null;
        }
    }
}
