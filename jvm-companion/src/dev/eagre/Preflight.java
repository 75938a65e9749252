package dev.eagre;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
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
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Alias$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryArithmetic;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.DivModLike;
import org.apache.spark.sql.catalyst.expressions.ElementAt;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetArrayItem;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.Dataset;
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
import org.apache.spark.sql.execution.streaming.ProcessingTimeTrigger;
import org.apache.spark.sql.execution.streaming.RealTimeTrigger;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata$;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.RealTimeModeAllowlist$;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkPropagator$;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.FractionalType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Plans a streaming write as a real-time query would be planned, without starting it, and tells what
 * the plan is made of. Nothing is read from a source, and nothing is written to a sink or checkpoint.
 *
 * <p>Written against the private planning classes of Spark 4.3.0; a contract test compares the
 * verdict with real starts.
 */
public final class Preflight {
    private static final TreeNodeTag<String> LINE = new TreeNodeTag<>("eagre.line");
    private static final TreeNodeTag<String> SAMPLED = new TreeNodeTag<>("eagre.sampled");
    private static final int SHOWN = 160;

    private Preflight() {}

    /** Remembers the line of the user's file that made the newest operators of a DataFrame. */
    public static void mark(Dataset<?> rows, String where) {
        for (LogicalPlan node : nodes(rows.queryExecution().analyzed())) {
            if (node.getTagValue(LINE).isEmpty()) {
                node.setTagValue(LINE, where);
            }
        }
    }

    /**
     * Describes a prepared write as JSON.
     *
     * @param partitions the shuffle partitions a checkpoint has fixed, or 0
     */
    public static String describe(DataStreamWriter<?> writer, long epochMs, int partitions)
            throws IOException {
        Write write = new Write(writer);
        Map<String, Object> facts = new LinkedHashMap<>();
        write.describe(facts);
        new Planning(write, epochMs, partitions).describe(facts);
        facts.put("jvm", jvm());
        return new ObjectMapper().writeValueAsString(facts);
    }

    /**
     * Counts the keys of each stateful operator over a sample of its sources.
     *
     * @param ranges for each source in its order the offsets between which to read, as JSON
     */
    public static String keys(DataStreamWriter<?> writer, String ranges) throws IOException {
        var json = new ObjectMapper();
        var told = new Sample(new Write(writer), json.readTree(ranges)).count();
        return json.writeValueAsString(told);
    }

    private static Map<String, Object> jvm() {
        List<String> collectors = new ArrayList<>();
        ManagementFactory.getGarbageCollectorMXBeans().forEach(b -> collectors.add(b.getName()));
        return Map.of(
                "collectors", collectors,
                "heap_mb", Runtime.getRuntime().maxMemory() >> 20,
                "java", Runtime.version().feature(),
                "kafka_clients", kafkaClients());
    }

    /** The release of the Kafka clients that Spark's connector brought; it is no part of Spark. */
    private static String kafkaClients() {
        try {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            Class<?> parser = Class.forName(
                    "org.apache.kafka.common.utils.AppInfoParser", true, loader);
            return String.valueOf(parser.getMethod("getVersion").invoke(null));
        } catch (ReflectiveOperationException e) {
            return "";
        }
    }

    /** What was told to the writer: its private fields have no getters. */
    private static final class Write {
        private final Object writer;
        private final Dataset<?> rows;
        private final String format;
        private final OutputMode mode;
        private final Trigger trigger;

        Write(DataStreamWriter<?> writer) {
            this.writer = writer;
            this.rows = (Dataset<?>) field("ds");
            this.format = (String) field("source");
            this.mode = (OutputMode) field("outputMode");
            this.trigger = (Trigger) field("trigger");
        }

        void describe(Map<String, Object> facts) {
            Object foreach = field("foreachWriter");
            facts.put("format", format);
            facts.put("output_mode", mode.toString());
            facts.put("trigger", trigger.getClass().getSimpleName().replace("$", ""));
            facts.put("every_ms", interval());
            facts.put("foreach", foreach == null ? "" : foreach.getClass().getName());
            facts.put("options", new TreeMap<>(CollectionConverters.asJava(options())));
            Map<String, String> columns = new LinkedHashMap<>();
            for (var column : rows.schema().fields()) {
                columns.put(column.name(), column.dataType().simpleString());
            }
            facts.put("columns", columns);
        }

        boolean realTime() {
            return trigger instanceof RealTimeTrigger || trigger instanceof ContinuousTrigger;
        }

        private long interval() {
            if (trigger instanceof RealTimeTrigger real) {
                return real.batchDurationMs();
            }
            if (trigger instanceof ProcessingTimeTrigger batch) {
                return batch.intervalMs();
            }
            return 0;
        }

        @SuppressWarnings("unchecked")
        private scala.collection.immutable.Map<String, String> options() {
            return ((CaseInsensitiveMap<String>) field("extraOptions")).originalMap();
        }

        private Object field(String name) {
            try {
                Field field = writer.getClass().getDeclaredField(name);
                field.setAccessible(true);
                return field.get(writer);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException("Spark's DataStreamWriter has no field " + name, e);
            }
        }
    }

    /** The plan, as a real-time query would get it. */
    private static final class Planning {
        private final Write write;
        private final long epochMs;
        private final LogicalPlan analyzed;
        private final SparkSession session;
        private final List<Map<String, Object>> refusals = new ArrayList<>();
        private final List<Map<String, Object>> sources = new ArrayList<>();
        private String unplanned = "";

        Planning(Write write, long epochMs, int partitions) {
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
            facts.put("logical", logical());
            facts.put("expressions", expressions());
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
            for (LogicalPlan node : nodes(plan)) {
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

        private List<Map<String, Object>> logical() {
            List<Map<String, Object>> told = new ArrayList<>();
            for (LogicalPlan node : nodes(analyzed)) {
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("name", node.nodeName());
                one.put("line", node.getTagValue(LINE).getOrElse(() -> ""));
                one.put("streaming", node.isStreaming());
                one.put("stateful", node.isStateful());
                detail(node, one);
                told.add(one);
            }
            return told;
        }

        private void detail(LogicalPlan node, Map<String, Object> one) {
            if (node instanceof Aggregate a) {
                one.put("keys", texts(list(a.groupingExpressions())));
                one.put("bounded", anyEventTime(a.groupingExpressions()));
                one.put("session", marked(a.groupingExpressions(), "spark.sessionWindow"));
            } else if (node instanceof Deduplicate d) {
                one.put("keys", texts(list(d.keys())));
                one.put("bounded", anyEventTime(d.keys()));
            } else if (node instanceof Distinct d) {
                one.put("bounded", anyEventTime(d.child().output()));
            } else if (node instanceof EventTimeWatermark w) {
                one.put("delay_ms", w.delay().microseconds / 1000 + w.delay().days * 86_400_000L);
            } else if (node instanceof TransformWithState t) {
                one.put("processor", t.statefulProcessor().getClass().getName());
                one.put("time_mode", t.timeMode().toString());
            } else if (node.nodeName().equals("Join")) {
                List<LogicalPlan> sides = list(node.children());
                one.put("streams", sides.stream().filter(LogicalPlan::isStreaming).count());
            }
        }

        private static boolean anyEventTime(scala.collection.Seq<? extends Expression> keys) {
            return marked(keys, EventTimeWatermark.delayKey());
        }

        private static boolean marked(scala.collection.Seq<? extends Expression> keys, String key) {
            return list(keys).stream()
                    .anyMatch(e -> e instanceof NamedExpression n && n.metadata().contains(key));
        }

        private List<Map<String, Object>> expressions() {
            List<Map<String, Object>> told = new ArrayList<>();
            for (LogicalPlan node : nodes(analyzed)) {
                if (node.isStreaming()) {
                    for (Expression e : list(node.expressions())) {
                        collect(e, false, node, told);
                    }
                }
            }
            return told;
        }

        /** Notes the expressions that rules ask for; what stands under a condition is guarded. */
        private void collect(
                Expression e, boolean guarded, LogicalPlan node, List<Map<String, Object>> told) {
            String kind = kind(e, guarded, node);
            if (kind != null) {
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("kind", kind);
                one.put("text", shortened(e));
                one.put("line", line(e, node));
                one.put("type", e.dataType().simpleString());
                told.add(one);
            }
            boolean branches = e instanceof CaseWhen || e instanceof If;
            List<Expression> children = list(e.children());
            for (int i = 0; i < children.size(); i++) {
                collect(children.get(i), guarded || branches && i > 0, node, told);
            }
        }

        private static String kind(Expression e, boolean guarded, LogicalPlan node) {
            String name = e.getClass().getSimpleName();
            if (e instanceof PythonFuncExpression) {
                return "python";
            }
            if (Set.of("CurrentTimestamp", "CurrentTimestampNanos", "Now", "LocalTimestamp",
                    "LocalTimestampNanos", "CurrentDate", "CurrentTime").contains(name)) {
                return "clock";
            }
            if (guarded) {
                return null;
            }
            if (e instanceof Cast cast) {
                return fails(cast) ? "cast" : null;
            }
            if (e instanceof DivModLike && e instanceof BinaryArithmetic division) {
                boolean ansi = division.evalMode().equals(EvalMode$.MODULE$.ANSI());
                boolean harmless = safe(division.right()) || filtered(division.right(), node);
                return ansi && !harmless ? "division" : null;
            }
            boolean index = e instanceof GetArrayItem item && item.failOnError()
                    || e instanceof ElementAt at && at.failOnError();
            return index ? "index" : null;
        }

        private static boolean fails(Cast cast) {
            DataType from = cast.child().dataType();
            DataType to = cast.dataType();
            boolean number = from instanceof NumericType || from instanceof BooleanType;
            boolean never = to instanceof StringType
                    || from instanceof TimestampType
                            && (to instanceof DateType || to instanceof LongType)
                    || number && (to instanceof FractionalType && !(to instanceof DecimalType)
                            || to instanceof BooleanType)
                    || from instanceof BooleanType
                    || Cast$.MODULE$.canUpCast(from, to);
            return cast.evalMode().equals(EvalMode$.MODULE$.ANSI())
                    && !cast.child().foldable()
                    && !never;
        }

        /** Whether a filter below tests the divisor. */
        private static boolean filtered(Expression divisor, LogicalPlan node) {
            return nodes(node).stream()
                    .filter(below -> below instanceof Filter)
                    .anyMatch(below -> divisor.references().nonEmpty() && divisor.references()
                            .subsetOf(((Filter) below).condition().references()));
        }

        /** A divisor that is a number other than zero, or that was turned into null. */
        private static boolean safe(Expression divisor) {
            if (divisor.toString().toLowerCase(java.util.Locale.ROOT).contains("nullif(")) {
                return true;
            }
            try {
                Object value = divisor.foldable() ? divisor.eval(null) : null;
                return value != null && Double.parseDouble(value.toString()) != 0;
            } catch (RuntimeException unknown) {
                return false;
            }
        }

        private static String line(Expression e, LogicalPlan node) {
            var context = e.origin().pysparkErrorContext();
            return context.isDefined()
                    ? context.get()._2()
                    : node.getTagValue(LINE).getOrElse(() -> "");
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
            return swapped(analyzed, node -> {
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
            for (SparkPlan child : list(node.children())) {
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
            return logical.isDefined() ? logical.get().getTagValue(LINE).getOrElse(() -> "") : "";
        }
    }

    /** The same query over a few records that are already there, as a batch. */
    private static final class Sample {
        private final SparkSession session;
        private final LogicalPlan analyzed;
        private final JsonNode ranges;
        private int sources;

        Sample(Write write, JsonNode ranges) {
            this.session = write.rows.sparkSession().cloneSession();
            this.analyzed = write.rows.queryExecution().analyzed();
            this.ranges = ranges;
        }

        List<Map<String, Object>> count() {
            List<Map<String, Object>> told = new ArrayList<>();
            for (LogicalPlan node : nodes(read())) {
                List<Expression> keys = keys(node);
                boolean streams = nodes(node).stream()
                        .anyMatch(below -> below.getTagValue(SAMPLED).isDefined());
                if (!keys.isEmpty() && streams) {
                    told.add(count(node.children().head(), keys));
                }
            }
            return told;
        }

        private static List<Expression> keys(LogicalPlan node) {
            if (node instanceof Aggregate a) {
                return list(a.groupingExpressions());
            }
            if (node instanceof Deduplicate d) {
                return list(d.keys());
            }
            return node instanceof TransformWithState t ? list(t.groupingAttributes()) : List.of();
        }

        private Map<String, Object> count(LogicalPlan child, List<Expression> keys) {
            Column[] columns = keys.stream()
                    .map(org.apache.spark.sql.classic.ExpressionUtils$.MODULE$::column)
                    .toArray(Column[]::new);
            Row counted = Dataset.ofRows(session, child)
                    .groupBy(columns)
                    .count()
                    .agg(functions.max("count"), functions.sum("count"))
                    .head();
            boolean none = counted.isNullAt(0);
            return Map.of(
                    "keys", texts(keys),
                    "most", none ? 0 : counted.getLong(0),
                    "rows", none ? 0 : counted.getLong(1));
        }

        private LogicalPlan read() {
            return swapped(analyzed, node -> {
                JsonNode range = ranges.path(sources++);
                return node instanceof StreamingRelationV2 source && range.has("begin")
                        ? batch(source, range)
                        : node;
            });
        }

        /** Reads a range of the topic under the names by which the query knows its columns. */
        private LogicalPlan batch(StreamingRelationV2 source, JsonNode range) {
            Map<String, String> options = new TreeMap<>(source.extraOptions());
            options.keySet().removeIf(key -> key.startsWith("starting") || key.startsWith("max")
                    || key.startsWith("min"));
            LogicalPlan read = session.read()
                    .format("kafka")
                    .options(options)
                    .option("startingOffsets", range.get("begin").toString())
                    .option("endingOffsets", range.get("end").toString())
                    .load()
                    .queryExecution()
                    .analyzed();
            List<NamedExpression> columns = new ArrayList<>();
            for (AttributeReference wanted : list(source.output())) {
                Attribute found = list(read.output()).stream()
                        .filter(a -> a.name().equals(wanted.name()))
                        .findFirst()
                        .orElseThrow();
                columns.add(new Alias(found, wanted.name(), wanted.exprId(), wanted.qualifier(),
                        Option.empty(), Alias$.MODULE$.$lessinit$greater$default$6(found, "")));
            }
            var sampled = new Project(CollectionConverters.asScala(columns).toSeq(), read);
            sampled.setTagValue(SAMPLED, "");
            return sampled;
        }
    }

    /** Puts something else in the place of each streaming source, from the top of the plan down. */
    private static LogicalPlan swapped(LogicalPlan plan, UnaryOperator<LogicalPlan> swap) {
        return plan.transform(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
            @Override
            public boolean isDefinedAt(LogicalPlan node) {
                return node instanceof StreamingRelationV2 || node instanceof StreamingRelation;
            }

            @Override
            public LogicalPlan apply(LogicalPlan node) {
                return swap.apply(node);
            }
        });
    }

    private static String shortened(Expression e) {
        String text = hidden(e).toString().replaceAll("#\\d+L?", "");
        return text.length() <= SHOWN ? text : text.substring(0, SHOWN) + "…";
    }

    /** The same expression without the texts in it: one of them may be a key or a password. */
    private static Expression hidden(Expression e) {
        return e.transform(new AbstractPartialFunction<Expression, Expression>() {
            @Override
            public boolean isDefinedAt(Expression part) {
                return part instanceof Literal literal
                        && (literal.dataType() instanceof StringType
                                || literal.dataType() instanceof BinaryType);
            }

            @Override
            public Expression apply(Expression part) {
                return Literal.create("…", DataTypes.StringType);
            }
        });
    }

    private static List<String> texts(List<? extends Expression> expressions) {
        return expressions.stream().map(Preflight::shortened).toList();
    }

    private static List<LogicalPlan> nodes(LogicalPlan plan) {
        List<LogicalPlan> found = new ArrayList<>();
        found.add(plan);
        list(plan.children()).forEach(child -> found.addAll(nodes(child)));
        return found;
    }

    private static <T> List<T> list(scala.collection.Seq<? extends T> seq) {
        return new ArrayList<>(CollectionConverters.asJava(seq));
    }

    private static void remove(Path folder) {
        try (Stream<Path> paths = Files.walk(folder)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException ignored) {
            // a few empty folders in the system's temporary folder are no reason to fail
        }
    }
}
