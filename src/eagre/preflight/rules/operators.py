"""Operators: which of them Real-Time Mode runs at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.finding import ALLOWLIST, REFUSED, Found, rule
from eagre.preflight.rules.python import PYTHON_MAPS, PYTHON_STATE, PYTHON_UDF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

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
    for node in facts.plan.running(*STATIC_JOINS):
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


def _line(facts: Facts, *kinds: str) -> str:
    return next((node.line for node in facts.plan.of_kind(*kinds) if node.line), "")
