"""Expressions over single records: failures, clocks and Python calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.finding import Match, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

REMEDIES = {
    "cast": "use F.try_to_number, F.try_to_timestamp or Column.try_cast: they return null.",
    "division": "use F.try_divide(a, b), or guard it: F.when(b != 0, a / b).",
    "index": "use F.get(array, i) or F.try_element_at: they return null for a missing element.",
}
WORDS = {"cast": "a cast", "division": "a division", "index": "an index"}


@rule(
    "FROZEN_CLOCK",
    "warning",
    "All rows of an epoch get the same time. It can be minutes old, and it changes on replay.",
)
def frozen_clock(facts: Facts) -> Iterator[Match]:
    """`current_timestamp()` returns the start of the epoch, the same value for all of its rows.

    In micro-batches that is accurate to about a second; in real time it can be minutes off. This
    expression reads the clock for each row:

        F.timestamp_millis(F.expr("reflect('java.lang.System',
        'currentTimeMillis')").cast("bigint"))

    `_source.timestamp` holds the record's Kafka timestamp, which stays the same on replay.
    """
    for e in facts.plan.expressions:
        if e["kind"] == "clock":
            yield Match(
                e["text"],
                f"{e['text']} is constant for a whole epoch ({facts.plan.every_ms / 1000:g} s).",
                "use _source.timestamp, or a per-row clock: see `eagre explain FROZEN_CLOCK`.",
                line=e["line"],
                numbers={"epoch_ms": facts.plan.every_ms},
            )


@rule(
    "PYTHON_COST",
    "advice",
    "Each batch goes to a Python process and back, and waits for its slowest row.",
    real_time_only=False,
)
def python_cost(facts: Facts) -> Iterator[Match]:
    """A Python UDF runs in a worker process; Spark sends rows there and back in batches.

    This works in micro-batches, but costs CPU for each row. To see how much on your machine,
    compare the workloads `python-map` and `stateless` in `eagre bench run`. SQL expressions run
    inside the JVM at no extra cost. Real-Time Mode refuses Python UDFs (see PYTHON_UDF); `eg.udf`
    runs in both modes.
    """
    if facts.mode == "real-time":
        return
    for e in facts.plan.expressions:
        if e["kind"] == "python":
            name = e["text"].split("(")[0]
            yield Match(
                f"Python function {name}",
                f"the Python function {name} runs outside the JVM.",
                "if its cost matters, use SQL expressions, or define it with eg.udf.",
                line=e["line"],
            )


@rule(
    "CRASH_LOOP",
    "warning",
    "One bad row stops the query. The restart reads the same row, and the query stops again.",
    real_time_only=False,
)
def crash_loop(facts: Facts) -> Iterator[Match]:
    """ANSI mode is on by default: a cast, division or index that fails raises an error.

    In a stream this causes a crash loop: the query fails, restarts before the row, and fails again.
    The `try_` functions return null instead; `F.when(b != 0, a / b)` guards a division. Records
    that `eg.Kafka` cannot parse never raise: they become dead letters.
    """
    if not facts.on("spark.sql.ansi.enabled", default=True):
        return
    for e in facts.plan.expressions:
        if e["kind"] in REMEDIES:
            yield Match(
                e["text"],
                f"{WORDS[e['kind']]} that fails on a bad row stops the query: {e['text']}.",
                REMEDIES[e["kind"]],
                line=e["line"],
            )
