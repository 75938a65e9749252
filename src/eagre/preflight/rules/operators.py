"""Operators: which of them Real-Time Mode runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.finding import ALLOWLIST, REFUSED, Match, rule
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
COVERED_ELSEWHERE = {
    *PYTHON_UDF,
    *PYTHON_MAPS,
    *PYTHON_STATE,
    *STATIC_JOINS,
    "StreamingSymmetricHashJoinExec",
    "StreamingDeduplicateWithinWatermarkExec",
}
"""Operators that have a separate rule."""

COVERED_REFUSALS = (
    "OUTPUT_MODE_NOT_SUPPORTED",
    "STATEFUL_OPERATORS_BEFORE_UNION",
    "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST",
    "session window",
    "Distinct aggregations",
    "'correctness' issue",
    "Sorting is not supported",
)
"""Refusals for which another rule has a better explanation in real time."""


@rule("STREAM_JOIN", "error", REFUSED, ALLOWLIST)
def stream_join(facts: Facts) -> Iterator[Match]:
    """Real-Time Mode joins a stream with tables, not with another stream.

    `eg.interval_join` joins two streams by key and time interval, in every mode. It emits a pair as
    soon as the second row arrives. With `how="left"` or `"full"`, it emits unmatched rows after the
    interval and a grace period, even if the stream is idle:

        eg.interval_join(views, clicks, "id", within="10 minutes", how="left")

    Columns that are not part of the key need different names on each side. If the second stream
    contains the changes of a table, `eg.lookup(views, users, "user")` adds the key's newest
    version, or the one at the row's event time. An inner join also runs unchanged in micro-batches:
    `--mode micro-batch`.
    """
    for node in facts.plan.of_kind("Join"):
        if node.detail.get("streams") == 2:  # noqa: PLR2004  (both sides)
            yield Match(
                "stream-stream join",
                "the query joins two streams, and real time joins a stream only with tables.",
                'join them by time: eg.interval_join(left, right, "key", within="10 minutes"); or '
                "run in micro-batches.",
                line=node.line,
            )


@rule("SESSION_WINDOW", "error", REFUSED, "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION")
def session_window(facts: Facts) -> Iterator[Match]:
    """Session windows merge as rows arrive, which Spark supports only in append mode.

    `eg.session_windows` computes the same sessions in every mode. It emits updates as a session
    grows, and a final result by event time or, if the stream is idle, by processing time:

        eg.session_windows(df, "user", "5 minutes", ["count"])

    For windows of a fixed length, use `F.window` for an update with every row, or
    `eg.windows(..., emit="final")` for one final result.
    """
    for node in facts.plan.of_kind("Aggregate"):
        if node.detail.get("session"):
            yield Match(
                "session_window",
                "session windows are not supported in update mode, which real time needs.",
                'use eg.session_windows(df, "key", "5 minutes", [...]).',
                line=node.line,
            )


@rule("DEDUP_WITHIN_WATERMARK", "error", REFUSED, ALLOWLIST)
def dedup_within_watermark(facts: Facts) -> Iterator[Match]:
    """Real-Time Mode does not support `dropDuplicatesWithinWatermark`.

    `eg.deduplicate` does the same in every mode, with bounded state:

        eg.deduplicate(df, ["id"], within="10 minutes")

    `dropDuplicates` also runs, and its state is bounded if the event time is one of its columns:
    `df.dropDuplicates(["id", "at"])`. A duplicate must then have the original's event time.
    """
    for node in facts.plan.of_kind("DeduplicateWithinWatermark"):
        yield Match(
            "dropDuplicatesWithinWatermark",
            "dropDuplicatesWithinWatermark does not run in real time.",
            'use eg.deduplicate(df, ["id"], within="10 minutes").',
            line=node.line,
        )


@rule("COUNT_DISTINCT", "error", REFUSED)
def count_distinct(facts: Facts) -> Iterator[Match]:
    """Spark does not support exact distinct aggregates on streams, in any mode.

    `F.approx_count_distinct` keeps a sketch of fixed size per group. `distinct(...)` in
    `eg.rolling` keeps one for each slice of a rolling window. `F.collect_set` with `F.size` is
    exact and suits a small number of values.
    """
    if facts.plan.refused_as("Distinct aggregations"):
        yield Match(
            "count(DISTINCT ...)",
            "distinct aggregates are not supported on streams.",
            "use F.approx_count_distinct(...).",
            line=_line(facts, "Aggregate"),
        )


@rule("SORT", "error", REFUSED, ALLOWLIST)
def sort(facts: Facts) -> Iterator[Match]:
    """A sort or a repartition by range needs its complete input, and a stream never ends.

    `df.repartition(8, "key")` partitions by hash and runs in real time. To order by event time,
    sort in the consumer of the results, or within a window.
    """
    for node in facts.plan.of_kind("Sort"):
        yield Match(
            "orderBy",
            "a stream cannot be sorted.",
            "sort in the consumer of the results, or aggregate in windows.",
            line=node.line,
            error_class="_LEGACY_ERROR_TEMP_3102",
        )
    for node in facts.plan.exchanges:
        if node.detail["partitioning"] == "RangePartitioning":
            yield Match(
                "repartitionByRange",
                "a repartition by range first samples its whole input, which never ends.",
                'partition by hash: df.repartition(8, "key").',
                line=node.line,
            )


@rule("STATIC_JOIN", "error", REFUSED, ALLOWLIST)
def static_join(facts: Facts) -> Iterator[Match]:
    """Real time joins a stream with a table only by broadcast.

    Spark broadcasts a table only if it knows that the table is smaller than
    `spark.sql.autoBroadcastJoinThreshold` (10 MB). Add a broadcast hint:

        df.join(F.broadcast(table), "card", "left")

    Join on equal columns: a join by inequality alone is not a hash join.
    """
    for node in facts.plan.running(*STATIC_JOINS):
        yield Match(
            node.name,
            f"Spark joins the table by {node.name}, which real time does not run.",
            "broadcast the table: df.join(F.broadcast(table), ...), on equal columns.",
            line=node.line,
        )


@rule(
    "STATE_BEFORE_UNION",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.STATEFUL_OPERATORS_BEFORE_UNION_NOT_SUPPORTED",
)
def state_before_union(facts: Facts) -> Iterator[Match]:
    """Real time supports no aggregation or deduplication before a union.

    If the branches need different state, add a column with the branch's name, union the branches,
    and make that column one of the keys. Or run two pipelines that write to the same topic.
    `eg.interval_join` and `eg.lookup` contain a union, so put them before other stateful operators.
    """
    if facts.plan.refused_as("STATEFUL_OPERATORS_BEFORE_UNION"):
        yield Match(
            "union",
            "the query aggregates or deduplicates before a union.",
            "union first, then aggregate, with the branch as one of the keys.",
            line=_line(facts, "Union"),
        )


@rule("STATE_AFTER_AGGREGATE", "error", REFUSED, "_LEGACY_ERROR_TEMP_3102")
def state_after_aggregate(facts: Facts) -> Iterator[Match]:
    """In update mode an aggregation cannot feed another stateful operator.

    It emits each result many times, and a second aggregation would count each version. Split the
    query into two pipelines with a topic between them; the second one takes the last version of
    each key.
    """
    if facts.plan.refused_as("'correctness' issue"):
        yield Match(
            "aggregation",
            "an aggregation feeds another stateful operator, which would count its updates.",
            "split it into two pipelines with a topic between them.",
            line=_line(facts, "Aggregate", "Deduplicate"),
        )


@rule("OPERATOR", "error", REFUSED, ALLOWLIST)
def operator(facts: Facts) -> Iterator[Match]:
    """Real-Time Mode has an allow-list of operators, and this one is not on it.

    The list contains project, filter, explode, union, broadcast joins with tables, repartition by
    hash, aggregation, windows, `dropDuplicates` and JVM `transformWithState`. It does not contain
    `coalesce`: use `repartition`. The same query runs in micro-batches.
    """
    refusal = facts.plan.refused_as("OPERATOR_OR_SINK_NOT_IN_ALLOWLIST")
    if refusal is None:
        return
    for node in facts.plan.operators:
        if node.streaming and node.detail["class"] in refusal.message:
            ranged = node.detail.get("partitioning") == "RangePartitioning"
            if node.kind not in COVERED_ELSEWHERE and not ranged and node.kind != "SortExec":
                yield Match(
                    node.name,
                    f"Real-Time Mode does not support the operator {node.name}.",
                    "replace it, or run in micro-batches: --mode micro-batch.",
                    line=node.line,
                )


@rule("REFUSED", "error", REFUSED, real_time_only=False)
def refused(facts: Facts) -> Iterator[Match]:
    """Spark refuses this query as a stream, whatever its trigger.

    The message comes from Spark. Limits, offsets, samples, grouping sets, row-based window
    functions and some types of join do not work on unbounded data.
    """
    for refusal in facts.plan.refusals:
        text = f"{refusal.error_class} {refusal.message}"
        low_latency = facts.mode in ("real-time", "continuous")
        if not (low_latency and any(phrase in text for phrase in COVERED_REFUSALS)):
            yield Match(
                refusal.error_class or "the query",
                refusal.message.strip() or "Spark cannot plan this query.",
                "rewrite this part; `df.explain(True)` shows it in the plan.",
                error_class=refusal.error_class,
            )


def _line(facts: Facts, *kinds: str) -> str:
    return next((node.line for node in facts.plan.of_kind(*kinds) if node.line), "")
