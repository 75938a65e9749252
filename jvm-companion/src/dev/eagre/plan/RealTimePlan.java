package dev.eagre.plan;

import dev.eagre.spark.PlanTree;
import dev.eagre.spark.StreamWriterFields;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.streaming.ContinuousTrigger;
import org.apache.spark.sql.execution.streaming.RealTimeTrigger;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata$;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.RealTimeModeAllowlist$;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkPropagator$;
import scala.Option;

/** Plans a query as a real-time query. */
final class RealTimePlan {
    private final StreamWriterFields write;
    private final long epochMs;
    private final LogicalPlan analyzed;
    private final SparkSession session;
    private final List<Map<String, Object>> refusals = new ArrayList<>();
    private final List<Map<String, Object>> sources = new ArrayList<>();
    private String unplanned = "";

    RealTimePlan(StreamWriterFields write, long epochMs, int partitions) {
        this.write = write;
        this.epochMs = epochMs;
        this.analyzed = write.rows.queryExecution().analyzed();
        this.session = write.rows.sparkSession().cloneSession();
        session.conf().set("spark.sql.cbo.enabled", "false");
        // A running query has no adaptive plan, because its root, the write, does not support one.
        session.conf().set("spark.sql.adaptive.enabled", "false");
        session.conf().set("spark.sql.execution.sortBeforeRepartition", "false");
        if (partitions > 0) {
            session.conf().set("spark.sql.shuffle.partitions", Integer.toString(partitions));
        }
    }

    void describe(Map<String, Object> facts) {
        var checker = UnsupportedOperationChecker$.MODULE$;
        if (write.trigger instanceof ContinuousTrigger) {
            recordRefusal(() -> checker.checkForContinuous(analyzed, write.mode));
        } else {
            if (write.trigger instanceof RealTimeTrigger) {
                recordRefusal(() -> checker.checkAdditionalRealTimeModeConstraints(
                        analyzed, write.mode));
            }
            recordRefusal(() -> checker.checkForStreaming(analyzed, write.mode));
        }
        facts.put("logical", LogicalFacts.of(analyzed));
        facts.put("expressions", ExpressionFacts.of(analyzed));
        facts.put("operators", write.realTime() ? operators() : List.of());
        if (!write.realTime()) {
            addSources(analyzed);
        }
        facts.put("sources", sources);
        facts.put("refusals", refusals);
        facts.put("unplanned", unplanned);
    }

    /** Adds the sources of a query that is not planned. */
    private void addSources(LogicalPlan plan) {
        for (LogicalPlan node : PlanTree.nodes(plan)) {
            if (node instanceof StreamingRelationV2 source) {
                source(source.sourceName(), source.extraOptions().asCaseSensitiveMap(), true,
                        false, source.table().getClass().getName());
            }
        }
    }

    private void recordRefusal(Runnable check) {
        try {
            check.run();
        } catch (Exception | AssertionError error) {  // Scala does not declare checked exceptions
            addRefusal(error);
        }
    }

    /** An error that is not Spark's own comes from this class, and is no reason to refuse the query. */
    private void addRefusal(Throwable error) {
        if (error instanceof SparkThrowable sparkError) {
            refusals.add(refusal(sparkError.getCondition(), error.getMessage()));
        } else {
            unplanned = error.getClass().getSimpleName() + ": " + error.getMessage();
        }
    }

    private static Map<String, Object> refusal(String condition, String message) {
        return Map.of(
                "error_class", condition == null ? "" : condition,
                "message", String.valueOf(message).lines().findFirst().orElse(""));
    }

    private List<Map<String, Object>> operators() {
        Path scratch;
        try {
            scratch = Files.createTempDirectory("eagre-preflight");
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
        try {
            return planned(scratch);
        } finally {
            remove(scratch);
        }
    }

    private List<Map<String, Object>> planned(Path scratch) {
        List<Map<String, Object>> operators = new ArrayList<>();
        recordRefusal(() -> {
            LogicalPlan logical = withScans(scratch);
            SparkPlan plan = session.withActive(() -> execution(logical, scratch).executedPlan());
            recordRefusal(() -> RealTimeModeAllowlist$.MODULE$
                    .checkAllowedPhysicalOperator(plan, true));
            describe(plan, operators);
        });
        return operators;
    }

    /** Replaces sources by scans, like MicroBatchExecution, but without reading from them. */
    private LogicalPlan withScans(Path scratch) {
        Set<StreamingRelationV2> seen = new HashSet<>();
        return PlanTree.replaceSources(analyzed, node -> {
            if (node instanceof StreamingRelationV2 source) {
                boolean repeated = !seen.add(source);
                return scan(source, scratch.resolve("source-" + seen.size()), repeated);
            }
            StreamingRelation old = (StreamingRelation) node;
            source(old.sourceName(), Map.of(), false, false, old.getClass().getName());
            return empty(node);
        });
    }

    private LogicalPlan scan(StreamingRelationV2 source, Path metadata, boolean repeated) {
        Scan scan = ((SupportsRead) source.table()).newScanBuilder(source.extraOptions()).build();
        MicroBatchStream stream = scan.toMicroBatchStream(metadata.toString());
        boolean supported = stream instanceof SupportsRealTimeMode;
        source(source.sourceName(), source.extraOptions().asCaseSensitiveMap(), supported, repeated,
                stream.getClass().getName());
        if (!supported) {
            return empty(source);
        }
        var relation = new StreamingDataSourceV2Relation(
                source.table(), source.output(), source.catalog(), source.identifier(),
                source.extraOptions(), metadata.toString(), Option.apply(epochMs),
                source.sourceIdentifyingName());
        return new StreamingDataSourceV2ScanRelation(
                relation, scan, source.output(), stream,
                Option.apply(stream.deserializeOffset("{}")), Option.empty());
    }

    private void source(
            String name, Map<String, String> options, boolean supported, boolean repeated, String type) {
        Map<String, Object> entry = new LinkedHashMap<>();
        entry.put("name", name);
        entry.put("class", type);
        entry.put("real_time", supported);
        entry.put("again", repeated);
        entry.put("options", new TreeMap<>(options));
        sources.add(entry);
    }

    @SuppressWarnings("unchecked")
    private static LocalRelation empty(LogicalPlan node) {
        var output = (scala.collection.immutable.Seq<Attribute>) (Object) node.output();
        return new LocalRelation(
                output, LocalRelation$.MODULE$.$lessinit$greater$default$2(), true,
                LocalRelation$.MODULE$.$lessinit$greater$default$4());
    }

    private IncrementalExecution execution(LogicalPlan plan, Path scratch) {
        var metadata = OffsetSeqMetadata$.MODULE$.apply(
                0L, 0L, OffsetSeqMetadata$.MODULE$.apply$default$3());
        return new IncrementalExecution(
                session, plan, write.mode, scratch.resolve("state").toString(),
                UUID.randomUUID(), UUID.randomUUID(), 1L, Option.empty(), metadata,
                WatermarkPropagator$.MODULE$.noop(), false,
                new scala.collection.mutable.HashMap<>(),
                new scala.collection.mutable.HashMap<>(),
                CommandExecutionMode.ALL(), false, true);
    }

    private boolean describe(SparkPlan node, List<Map<String, Object>> operators) {
        Map<String, Object> operator = new LinkedHashMap<>();
        operators.add(operator);
        boolean streams = node instanceof RealTimeStreamScanExec;
        for (SparkPlan child : PlanTree.list(node.children())) {
            streams |= describe(child, operators);
        }
        operator.put("class", node.getClass().getName());
        operator.put("name", node.nodeName());
        operator.put("streaming", streams);
        operator.put("line", line(node));
        if (node instanceof ShuffleExchangeExec exchange) {
            operator.put("partitions", exchange.outputPartitioning().numPartitions());
            operator.put("partitioning", exchange.outputPartitioning().getClass().getSimpleName());
        }
        return streams;
    }

    private static String line(SparkPlan node) {
        Option<LogicalPlan> logical = node.logicalLink();
        return logical.isDefined()
                ? logical.get().getTagValue(PlanTree.LINE).getOrElse(() -> "")
                : "";
    }

    private static void remove(Path folder) {
        try (Stream<Path> paths = Files.walk(folder)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException ignored) {
            // A few empty temporary folders are no reason to fail.
        }
    }
}
