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

/** The plan, as a real-time query would get it. */
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
        // A started query has no adaptive plan: its root, the write, does not support one.
        session.conf().set("spark.sql.adaptive.enabled", "false");
        session.conf().set("spark.sql.execution.sortBeforeRepartition", "false");
        if (partitions > 0) {
            session.conf().set("spark.sql.shuffle.partitions", Integer.toString(partitions));
        }
    }

    void describe(Map<String, Object> facts) {
        var checker = UnsupportedOperationChecker$.MODULE$;
        if (write.trigger instanceof ContinuousTrigger) {
            refusing(() -> checker.checkForContinuous(analyzed, write.mode));
        } else {
            if (write.trigger instanceof RealTimeTrigger) {
                refusing(() -> checker.checkAdditionalRealTimeModeConstraints(
                        analyzed, write.mode));
            }
            refusing(() -> checker.checkForStreaming(analyzed, write.mode));
        }
        facts.put("logical", LogicalFacts.of(analyzed));
        facts.put("expressions", ExpressionFacts.of(analyzed));
        facts.put("operators", write.realTime() ? operators() : List.of());
        if (!write.realTime()) {
            name(analyzed);
        }
        facts.put("sources", sources);
        facts.put("refusals", refusals);
        facts.put("unplanned", unplanned);
    }

    /** Names the sources of a query that is not planned. */
    private void name(LogicalPlan plan) {
        for (LogicalPlan node : PlanTree.nodes(plan)) {
            if (node instanceof StreamingRelationV2 source) {
                source(source.sourceName(), source.extraOptions().asCaseSensitiveMap(), true,
                        false, source.table().getClass().getName());
            }
        }
    }

    private void refusing(Runnable check) {
        try {
            check.run();
        } catch (Exception | AssertionError error) {  // Scala's checked ones are not declared
            refused(error);
        }
    }

    /** What is no error of Spark's own is our planning's fault, and no reason to refuse. */
    private void refused(Throwable error) {
        if (error instanceof SparkThrowable known) {
            refusals.add(refusal(known.getCondition(), error.getMessage()));
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
        List<Map<String, Object>> told = new ArrayList<>();
        refusing(() -> {
            LogicalPlan wired = wired(scratch);
            SparkPlan plan = session.withActive(() -> execution(wired, scratch).executedPlan());
            refusing(() -> RealTimeModeAllowlist$.MODULE$
                    .checkAllowedPhysicalOperator(plan, true));
            describe(plan, told);
        });
        return told;
    }

    /** Puts sources in their places, as MicroBatchExecution does, and never asks them anything. */
    private LogicalPlan wired(Path scratch) {
        Set<StreamingRelationV2> seen = new HashSet<>();
        return PlanTree.replaceSources(analyzed, node -> {
            if (node instanceof StreamingRelationV2 source) {
                boolean again = !seen.add(source);
                return scan(source, scratch.resolve("source-" + seen.size()), again);
            }
            StreamingRelation old = (StreamingRelation) node;
            source(old.sourceName(), Map.of(), false, false, old.getClass().getName());
            return empty(node);
        });
    }

    private LogicalPlan scan(StreamingRelationV2 source, Path metadata, boolean again) {
        Scan scan = ((SupportsRead) source.table()).newScanBuilder(source.extraOptions()).build();
        MicroBatchStream stream = scan.toMicroBatchStream(metadata.toString());
        boolean able = stream instanceof SupportsRealTimeMode;
        source(source.sourceName(), source.extraOptions().asCaseSensitiveMap(), able, again,
                stream.getClass().getName());
        if (!able) {
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
            String name, Map<String, String> options, boolean able, boolean again, String type) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("name", name);
        told.put("class", type);
        told.put("real_time", able);
        told.put("again", again);
        told.put("options", new TreeMap<>(options));
        sources.add(told);
    }

    @SuppressWarnings("unchecked")
    private static LocalRelation empty(LogicalPlan node) {
        var output = (scala.collection.immutable.Seq<Attribute>) (Object) node.output();
        return new LocalRelation(
                output, LocalRelation$.MODULE$.$lessinit$greater$default$2(), true,
                LocalRelation$.MODULE$.$lessinit$greater$default$4());
    }

    private IncrementalExecution execution(LogicalPlan wired, Path scratch) {
        var nothing = OffsetSeqMetadata$.MODULE$.apply(
                0L, 0L, OffsetSeqMetadata$.MODULE$.apply$default$3());
        return new IncrementalExecution(
                session, wired, write.mode, scratch.resolve("state").toString(),
                UUID.randomUUID(), UUID.randomUUID(), 1L, Option.empty(), nothing,
                WatermarkPropagator$.MODULE$.noop(), false,
                new scala.collection.mutable.HashMap<>(),
                new scala.collection.mutable.HashMap<>(),
                CommandExecutionMode.ALL(), false, true);
    }

    private boolean describe(SparkPlan node, List<Map<String, Object>> told) {
        Map<String, Object> one = new LinkedHashMap<>();
        told.add(one);
        boolean streams = node instanceof RealTimeStreamScanExec;
        for (SparkPlan child : PlanTree.list(node.children())) {
            streams |= describe(child, told);
        }
        one.put("class", node.getClass().getName());
        one.put("name", node.nodeName());
        one.put("streaming", streams);
        one.put("line", link(node));
        if (node instanceof ShuffleExchangeExec exchange) {
            one.put("partitions", exchange.outputPartitioning().numPartitions());
            one.put("partitioning", exchange.outputPartitioning().getClass().getSimpleName());
        }
        return streams;
    }

    private static String link(SparkPlan node) {
        Option<LogicalPlan> logical = node.logicalLink();
        return logical.isDefined()
                ? logical.get().getTagValue(PlanTree.LINE).getOrElse(() -> "")
                : "";
    }

    private static void remove(Path folder) {
        try (Stream<Path> paths = Files.walk(folder)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException ignored) {
            // a few empty folders in the system's temporary folder are no reason to fail
        }
    }
}
