"""What Real-Time Mode runs at all: modes, sinks, sources, operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.facts import number
from eagre.preflight.finding import Found, rule
from eagre.sources import refused_in_real_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eagre.preflight.facts import Facts
    from eagre.preflight.plan import Node

ALLOWLIST = "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"
REFUSED = "Spark refuses the query at its start."

SINKS = ("kafka", "console", "foreach")
FILES = ("parquet", "delta", "iceberg", "hudi", "orc", "json", "csv", "text", "avro")
"""Sinks that only append, in whole files."""

PYTHON_UDF = ("BatchEvalPythonExec", "ArrowEvalPythonExec")
PYTHON_MAPS = (
    "MapInPandasExec",
    "MapInArrowExec",
    "PythonMapInArrowExec",
    "BatchEvalPythonUDTFExec",
    "ArrowEvalPythonUDTFExec",
    "FlatMapGroupsInPandasExec",
    "FlatMapGroupsInArrowExec",
    "ArrowAggregatePythonExec",
)
PYTHON_STATE = ("FlatMapGroupsInPandasWithStateExec", "TransformWithStateInPySparkExec")
STATIC_JOINS = (
    "SortMergeJoinExec",
    "ShuffledHashJoinExec",
    "CartesianProductExec",
    "BroadcastNestedLoopJoinExec",
)
TOLD_APART = {
    *PYTHON_UDF,
    *PYTHON_MAPS,
    *PYTHON_STATE,
    *STATIC_JOINS,
    "StreamingSymmetricHashJoinExec",
    "StreamingDeduplicateWithinWatermarkExec",
}
"""Operators that have a rule of their own."""


def _operators(facts: Facts, *kinds: str) -> list[Node]:
    return [node for node in facts.plan.operators if node.streaming and node.kind in kinds]


@rule(
    "OUTPUT_MODE",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED",
)
def output_mode(facts: Facts) -> Iterator[Found]:
    """Real-Time Mode writes each result as it comes, so its output mode is `update`.

    `append` would hold a result back until a watermark says it is final, and `complete` would write
    the whole table again. `eg.pipeline` always writes in update mode. In plain PySpark:

        writer.outputMode("update")

    A reader that needs only final results takes the last version of each key.
    """
    mode = facts.plan.output_mode
    if mode != "Update":
        yield Found(
            f'outputMode("{mode.lower()}")',
            f"the output mode is {mode.lower()} and real time knows only update.",
            'write `.outputMode("update")`.',
        )


@rule("FOREACH_BATCH", "error", REFUSED, ALLOWLIST)
def foreach_batch(facts: Facts) -> Iterator[Found]:
    """`foreachBatch` hands over finished batches, and real time has none until its epoch ends.

    Write to Kafka in real time, and run `foreachBatch` in a second, micro-batch query that reads
    that topic; or run this query itself in micro-batches (`eagre run --mode micro-batch`).
    """
    if facts.plan.format.lower() == "foreachbatch":
        yield Found(
            "foreachBatch",
            "foreachBatch has no meaning in real time: there are no batches.",
            "write to a Kafka topic in real time, and run foreachBatch in a micro-batch query that "
            "reads it.",
        )


@rule("SINK_APPEND_ONLY", "error", REFUSED, "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE")
def append_only_sink(facts: Facts) -> Iterator[Found]:
    """Files and lake tables can only be appended to, in whole files, once per batch.

    Real time writes row by row. Keep the critical path in real time, to Kafka, and let a second
    query copy that topic, or the source, into the table in micro-batches:

        (spark.readStream.format("kafka")...
            .writeStream.format("parquet").outputMode("append")
            .option("checkpointLocation", "checkpoints/archive")
            .trigger(processingTime="1 minute").start("archive"))

    Each query has its own checkpoint; run them in sessions of their own.
    """
    kind = facts.plan.format.lower()
    if kind in FILES:
        yield Found(
            f"sink {kind}",
            f"a {kind} table is appended to in whole files, and real time writes rows.",
            "write to Kafka in real time, and copy that topic into the table with a micro-batch "
            "query beside it.",
        )


@rule("SINK", "error", REFUSED, ALLOWLIST)
def sink(facts: Facts) -> Iterator[Found]:
    """Real-Time Mode writes to Kafka, to a JVM `ForeachWriter` and to the console.

    `eg.Postgres` and `eg.Redis` are such writers, for the newest row of each key. For any other
    sink write to Kafka, and let a micro-batch query or a connector carry the records on.
    """
    kind = facts.plan.format.lower()
    if kind not in (*SINKS, *FILES, "foreachbatch"):
        yield Found(
            f"sink {kind}",
            f"the sink {kind!r} does not take rows one by one.",
            "write to Kafka, and carry the records on from there.",
        )


@rule("PYTHON_FOREACH", "error", "Rows stay in a buffer of the Python runner, often for minutes.")
def python_foreach(facts: Facts) -> Iterator[Found]:
    """A Python `foreach` passes Spark's checks, and its rows are withheld.

    PySpark hands rows to the Python worker in batches that double up to a megabyte, so at modest
    rates nothing arrives until the epoch ends: of 50 rows at 10 per second none had arrived after
    20 seconds. Write to Kafka and read the topic from Python, or run the query in micro-batches.
    """
    if "Python" in facts.plan.foreach:
        yield Found(
            "foreach",
            "a Python foreach gets its rows in batches of up to a megabyte.",
            "write to a Kafka topic, and consume that topic in Python.",
        )


@rule("SINK_COLUMNS", "error", "Spark refuses the query, or each row of it.", real_time_only=False)
def sink_columns(facts: Facts) -> Iterator[Found]:
    """Spark's Kafka sink writes the column `value`, and `key`, `headers`, `topic` where they are.

    `value` and `key` must be strings or bytes. Without the option `topic` each row names its topic
    in a column of that name. `eg.pipeline` makes these columns by itself.
    """
    if facts.plan.format != "kafka":
        return
    columns = facts.plan.columns
    if columns.get("value") not in ("string", "binary"):
        yield Found(
            "column value",
            f"the Kafka sink needs a string or binary column 'value'; it is "
            f"{columns.get('value', 'missing')}.",
            'end with `.select(F.to_json(F.struct("*")).alias("value"))`.',
        )
    if columns.get("key", "string") not in ("string", "binary"):
        yield Found(
            "column key",
            f"the Kafka sink needs a key of type string or binary; it is {columns['key']}.",
            'write `F.col("key").cast("string")`.',
        )
    if not facts.plan.option("topic") and columns.get("topic") != "string":
        yield Found(
            "option topic",
            "the Kafka sink has neither an option `topic` nor a column of that name.",
            'write `.option("topic", "...")`.',
        )


@rule(
    "SOURCE",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED",
)
def source(facts: Facts) -> Iterator[Found]:
    """Only sources that can wait for the next row run in real time: of those Spark ships, Kafka.

    Files, rate, sockets and Python data sources deliver whole batches. Bring the data into a Kafka
    topic first; `eagre topic produce` does it for a try.
    """
    for one in facts.plan.sources:
        if not one.real_time:
            yield Found(
                f"source {one.name}",
                f"the source {one.name!r} cannot be read in real time.",
                "read from Kafka.",
            )


@rule(
    "SOURCE_TWICE",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.IDENTICAL_SOURCES_IN_UNION_NOT_SUPPORTED",
)
def source_twice(facts: Facts) -> Iterator[Found]:
    """One source may stand in a real-time query once: a union of a stream with itself is refused.

    Give the rows a column that tells the branches apart instead, in one pass:

        df.withColumn("kind", F.explode(F.array(F.lit("a"), F.lit("b"))))

    or read the topic by a second `eg.Kafka(...)` with another option, such as another
    `groupIdPrefix`.
    """
    for one in facts.plan.sources:
        if one.again:
            yield Found(
                f"source {','.join(one.topics) or one.name}",
                "the same stream stands in the query twice.",
                "make both branches in one pass with F.explode(F.array(...)).",
            )


@rule("PYTHON_UDF", "error", REFUSED, ALLOWLIST)
def python_udf(facts: Facts) -> Iterator[Found]:
    """Open-source Real-Time Mode runs no Python functions of PySpark's own.

    With Spark's check switched off a UDF would give nothing until the epoch ends, since its runner
    collects rows first. Eagre's bridge runs the same function row by row, in every mode:

        score = eg.udf(function, "double")          # instead of F.udf(function, "double")
        df.withColumn("risk", score("amount", "country"))

    `eg.batch_udf` takes the place of a pandas UDF: the function gets lists of the rows that are
    there. `docs/python.md` says what both cost. SQL expressions (`F.when`, `F.transform`,
    `F.aggregate` and several hundred more) run inside the JVM at no extra cost; and the same file
    runs as it is in micro-batches: `eagre run APP.py --mode micro-batch`.
    """
    functions = [e for e in facts.plan.expressions if e["kind"] == "python"]
    for node in _operators(facts, *PYTHON_UDF):
        named = ", ".join(dict.fromkeys(e["text"].split("(")[0] for e in functions)) or node.name
        line = next((e["line"] for e in functions if e["line"]), node.line)
        yield Found(
            f"Python function {named}",
            f"the Python function {named} cannot run in real time.",
            "make it with eg.udf (or eg.batch_udf) instead, write it in SQL expressions, or run in "
            "micro-batches: --mode micro-batch.",
            line=line,
        )


@rule("PYTHON_MAP", "error", REFUSED, ALLOWLIST)
def python_map(facts: Facts) -> Iterator[Found]:
    """`mapInPandas`, `mapInArrow`, `applyInPandas` and Python table functions need a whole batch.

    `eg.flat_map(df, function, schema)` makes any number of rows of each row, in every mode;
    `eg.batch_udf` gives a function the rows that are there as lists. Or use SQL expressions and
    `F.explode`, or run in micro-batches.
    """
    for node in _operators(facts, *PYTHON_MAPS):
        yield Found(
            node.name,
            f"{node.name} collects rows for Python, and real time passes them one by one.",
            "use eg.flat_map or eg.batch_udf, SQL expressions and F.explode, or run in "
            "micro-batches: --mode micro-batch.",
            line=node.line,
        )


@rule("PYTHON_STATE", "error", REFUSED, ALLOWLIST)
def python_state(facts: Facts) -> Iterator[Found]:
    """`applyInPandasWithState` and PySpark's `transformWithState` run their state in Python.

    `eg.transform_with_state(df.groupBy("card"), processor, schema)` runs the same, unchanged
    `StatefulProcessor` (its Row API) in every mode, with its state in Spark's own store; it needs a
    checkpoint of its own. Aggregations, windows and `dropDuplicates` in the JVM cover much of what
    is written by hand (a running mean is `F.avg`, the last value is `F.max_by(value, at)`).
    """
    for node in _operators(facts, *PYTHON_STATE):
        yield Found(
            node.name,
            f"{node.name} keeps its state through Python, which real time does not run.",
            "give the processor to eg.transform_with_state, use aggregations per key, or run in "
            "micro-batches: --mode micro-batch.",
            line=node.line,
        )


@rule("STREAM_JOIN", "error", REFUSED, ALLOWLIST)
def stream_join(facts: Facts) -> Iterator[Found]:
    """Real-Time Mode joins a stream with tables, not with another stream.

    `eg.interval_join` joins two streams by key and nearness in time, in every mode: a pair as soon
    as its second row is there, and rows that find none (`how="left"` or `"full"`) when the interval
    and a grace are over, also where nothing more comes:

        eg.interval_join(views, clicks, "id", within="10 minutes", how="left")

    Columns that are not part of the key need names of their own on each side. Where the second
    stream is the changes of a table, `eg.lookup(views, users, "user")` gives each row with its
    key's newest version, or with the one of its event time. An inner join also runs as it is in
    micro-batches: `--mode micro-batch`.
    """
    for node in facts.plan.of_kind("Join"):
        if node.detail.get("streams") == 2:  # noqa: PLR2004  (both sides)
            yield Found(
                "stream-stream join",
                "two streams are joined, and real time joins a stream only with tables.",
                'join them by time: eg.interval_join(left, right, "key", within="10 minutes"); or '
                "run in micro-batches.",
                line=node.line,
            )


@rule("SESSION_WINDOW", "error", REFUSED, "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION")
def session_window(facts: Facts) -> Iterator[Found]:
    """Session windows merge as rows arrive, which Spark offers in append mode only.

    `eg.session_windows` gives the same sessions in every mode, as they grow and once more when they
    are final, by event time or, where nothing follows, by the wall clock:

        eg.session_windows(df, "user", "5 minutes", ["count"])

    Windows of a fixed length update with every row (`F.window`), or come once when they are final
    (`eg.windows(..., emit="final")`).
    """
    for node in facts.plan.of_kind("Aggregate"):
        if node.detail.get("session"):
            yield Found(
                "session_window",
                "session windows are not supported in update mode, which real time needs.",
                'use eg.session_windows(df, "key", "5 minutes", [...]).',
                line=node.line,
            )


@rule("DEDUP_WITHIN_WATERMARK", "error", REFUSED, ALLOWLIST)
def dedup_within_watermark(facts: Facts) -> Iterator[Found]:
    """`dropDuplicatesWithinWatermark` is not among the operators of Real-Time Mode.

    `eg.deduplicate` does the same in every mode, with an end to its state:

        eg.deduplicate(df, ["id"], within="10 minutes")

    `dropDuplicates` runs too, and its state is bounded where the event time is one of its columns:
    `df.dropDuplicates(["id", "at"])`. A duplicate must then carry the original's event time.
    """
    for node in facts.plan.of_kind("DeduplicateWithinWatermark"):
        yield Found(
            "dropDuplicatesWithinWatermark",
            "dropDuplicatesWithinWatermark does not run in real time.",
            'use eg.deduplicate(df, ["id"], within="10 minutes").',
            line=node.line,
        )


@rule("COUNT_DISTINCT", "error", REFUSED)
def count_distinct(facts: Facts) -> Iterator[Found]:
    """Streams have no exact distinct aggregates, in any mode.

    `F.approx_count_distinct` keeps a sketch of fixed size per group, and `distinct(...)` of
    `eg.rolling` one for each slice of a rolling window; `F.collect_set` with `F.size` is exact
    where the values are few.
    """
    if facts.plan.refused_as("Distinct aggregations"):
        yield Found(
            "count(DISTINCT ...)",
            "distinct aggregates are not supported on streams.",
            "use F.approx_count_distinct(...).",
            line=_line(facts, "Aggregate"),
        )


@rule("SORT", "error", REFUSED, ALLOWLIST)
def sort(facts: Facts) -> Iterator[Found]:
    """A sort, and a repartition by range, must see the end of their input, and a stream has none.

    `df.repartition(8, "key")` spreads by hash and runs in real time. Order by event time belongs to
    the reader of the results, or into a window.
    """
    for node in facts.plan.of_kind("Sort"):
        yield Found(
            "orderBy",
            "a stream cannot be sorted.",
            "leave the order to the reader, or aggregate in windows.",
            line=node.line,
            error_class="_LEGACY_ERROR_TEMP_3102",
        )
    for node in facts.plan.exchanges:
        if node.detail["partitioning"] == "RangePartitioning":
            yield Found(
                "repartitionByRange",
                "a repartition by range samples its input first, which never ends.",
                'spread by hash: df.repartition(8, "key").',
                line=node.line,
            )


@rule("STATIC_JOIN", "error", REFUSED, ALLOWLIST)
def static_join(facts: Facts) -> Iterator[Found]:
    """A stream is joined with a table by broadcast; other joins sort or shuffle the table.

    Spark broadcasts a table only when it knows it to be below
    `spark.sql.autoBroadcastJoinThreshold` (10 MB). Say it in the query:

        df.join(F.broadcast(table), "card", "left")

    and join on equal columns, for a join by inequality alone is no hash join.
    """
    for node in _operators(facts, *STATIC_JOINS):
        yield Found(
            node.name,
            f"the table is joined by {node.name}, which real time does not run.",
            "broadcast the table: df.join(F.broadcast(table), ...), on equal columns.",
            line=node.line,
        )


@rule(
    "STATE_BEFORE_UNION",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.STATEFUL_OPERATORS_BEFORE_UNION_NOT_SUPPORTED",
)
def state_before_union(facts: Facts) -> Iterator[Found]:
    """Union first, then keep state: no aggregation or deduplication may stand before a union.

    Where the branches need different state, give the rows a column with the branch's name, union
    them, and make it one of the keys; or run two pipelines that write one topic. `eg.interval_join`
    and `eg.lookup` unite their streams, so they come before other operators, never behind one.
    """
    if facts.plan.refused_as("STATEFUL_OPERATORS_BEFORE_UNION"):
        yield Found(
            "union",
            "an aggregation or deduplication stands before a union.",
            "union first, then aggregate, with the branch as one of the keys.",
            line=_line(facts, "Union"),
        )


@rule("STATE_AFTER_AGGREGATE", "error", REFUSED, "_LEGACY_ERROR_TEMP_3102")
def state_after_aggregate(facts: Facts) -> Iterator[Found]:
    """In update mode an aggregate may not feed another stateful operator.

    It sends each result many times, and a second aggregate would count each version. Split the
    query in two pipelines with a topic between them; the second one takes the last version by key.
    """
    if facts.plan.refused_as("'correctness' issue"):
        yield Found(
            "aggregation",
            "an aggregation feeds another stateful operator, which would count its updates.",
            "make two pipelines of it, with a topic between them.",
            line=_line(facts, "Aggregate", "Deduplicate"),
        )


@rule("OPERATOR", "error", REFUSED, ALLOWLIST)
def operator(facts: Facts) -> Iterator[Found]:
    """Real-Time Mode has an allow-list of operators, and this one is not on it.

    Project, filter, explode, union, broadcast joins with tables, repartition by hash, aggregation,
    windows, `dropDuplicates` and JVM `transformWithState` are. `coalesce` is not: use
    `repartition`. The same query runs in micro-batches.
    """
    refusal = facts.plan.refused_as("OPERATOR_OR_SINK_NOT_IN_ALLOWLIST")
    if refusal is None:
        return
    for node in facts.plan.operators:
        if node.streaming and node.detail["class"] in refusal.message:
            ranged = node.detail.get("partitioning") == "RangePartitioning"
            if node.kind not in TOLD_APART and not ranged and node.kind != "SortExec":
                yield Found(
                    node.name,
                    f"{node.name} is not among the operators of Real-Time Mode.",
                    "replace it, or run in micro-batches: --mode micro-batch.",
                    line=node.line,
                )


EXPLAINED = (
    "OUTPUT_MODE_NOT_SUPPORTED",
    "STATEFUL_OPERATORS_BEFORE_UNION",
    "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST",
    "session window",
    "Distinct aggregations",
    "'correctness' issue",
    "Sorting is not supported",
)
"""Refusals that another rule tells better in real time."""


@rule("REFUSED", "error", REFUSED, real_time_only=False)
def refused(facts: Facts) -> Iterator[Found]:
    """Spark refuses this query as a stream, whatever its trigger.

    The sentence is Spark's own. Limits, offsets, samples, grouping sets, row-based window functions
    and a few kinds of join have no meaning on data without an end.
    """
    for refusal in facts.plan.refusals:
        text = f"{refusal.error_class} {refusal.message}"
        told = facts.mode in ("real-time", "continuous")
        elsewhere = told and any(known in text for known in EXPLAINED)
        if not elsewhere:
            yield Found(
                refusal.error_class or "the query",
                refusal.message.strip() or "Spark cannot plan this query.",
                "rewrite this part; `df.explain(True)` shows it in the plan.",
                error_class=refusal.error_class,
            )


@rule(
    "OPTION_REFUSED", "error", "The query dies in its first epoch (UnsupportedOperationException)."
)
def option_refused(facts: Facts) -> Iterator[Found]:
    """Options that limit a batch have no meaning in real time, and the Kafka source throws on them.

    `minPartitions`, `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay` and
    `endingTimestamp`: take them out of the reader. `eg.Kafka(..., options=...)` keeps them for
    micro-batches and leaves them out in real time.
    """
    for one in facts.plan.sources:
        for stated in one.options:
            if refused_in_real_time(stated):
                yield Found(
                    f"option {stated}",
                    f"the source has {stated}={one.options[stated]}, which real time refuses.",
                    "take the option out.",
                )


@rule("OPTION_LEFT_OUT", "advice", "Nothing: Eagre leaves the option out in real time.")
def option_left_out(facts: Facts) -> Iterator[Found]:
    """The option holds in micro-batches and is left out in real time, which would refuse it.

    In real time each partition is read as fast as it comes, after a long standstill too.
    """
    for name in facts.left_out:
        yield Found(
            f"option {name}",
            f"{name} is left out in real time; it holds in micro-batches.",
            "nothing to do.",
        )


@rule(
    "ALLOWLIST_OFF",
    "warning",
    "Operators that real time does not know run anyway, and may give nothing until the epoch ends.",
)
def allowlist_off(facts: Facts) -> Iterator[Found]:
    """`spark.sql.streaming.realTimeMode.allowlistCheck=false` turns refusals into log lines.

    A Python UDF then starts and withholds its rows; a range repartition starts and never ends.
    """
    key = "spark.sql.streaming.realTimeMode.allowlistCheck"
    if not facts.on(key, default=True):
        yield Found(
            key,
            "Spark's own check of operators and sinks is switched off.",
            "leave it on; this check tells the same, and why.",
            settings={key: "true"},
        )


@rule(
    "SETTING_REFUSED",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.SQL_CONFIGURATION_NOT_SUPPORTED",
)
def setting_refused(facts: Facts) -> Iterator[Found]:
    """Real time needs RocksDB, state checkpoints of format 2, and no sort before a repartition.

    Where they are not set Spark chooses them by itself, and Eagre's profile sets them for
    micro-batches too, so that one checkpoint serves both modes.
    """
    needed: dict[str, tuple[str, Callable[[str], bool]]] = {
        "spark.sql.streaming.stateStore.checkpointFormatVersion": (
            "2",
            lambda v: number(v, 2) > 1,
        ),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            lambda v: v.endswith("RocksDBStateStoreProvider"),
        ),
        "spark.sql.execution.sortBeforeRepartition": ("false", lambda v: v.lower() == "false"),
    }
    for key, (value, fits) in needed.items():
        if key in facts.settings and not fits(facts.settings[key]):
            yield Found(
                key,
                f"{key} is {facts.settings[key]} and real time needs {value}.",
                "set it so, or leave it to Spark.",
                settings={key: value},
            )


@rule(
    "ASYNC_INTERVAL",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.ASYNC_PROGRESS_TRACKING_CHECKPOINTING_INTERVAL_NON_ZERO",
)
def async_interval(facts: Facts) -> Iterator[Found]:
    """Asynchronous progress in real time writes every epoch; an interval of its own is refused."""
    name = "asyncProgressTrackingCheckpointIntervalMs"
    stateful = any(node.detail.get("stateful") for node in facts.plan.logical)
    if not stateful and number(facts.plan.option(name), 0) > 0:
        yield Found(
            f"option {name}",
            f"{name} is {facts.plan.option(name)} and must be 0 in real time.",
            "take the option out.",
        )


def _line(facts: Facts, *kinds: str) -> str:
    return next((node.line for node in facts.plan.of_kind(*kinds) if node.line), "")
