"""Single records: what one bad row does, and what time it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.finding import Found, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

REMEDIES = {
    "cast": "use F.try_to_number, F.try_to_timestamp or Column.try_cast: a bad value gives null.",
    "division": "use F.try_divide(a, b), or guard it: F.when(b != 0, a / b).",
    "index": "use F.get(array, i) or F.try_element_at: nothing there gives null.",
}
WORDS = {"cast": "a cast", "division": "a division", "index": "an index"}


@rule(
    "FROZEN_CLOCK",
    "warning",
    "Every row of an epoch has the same time, up to minutes old, and another one on replay.",
)
def frozen_clock(facts: Facts) -> Iterator[Found]:
    """`current_timestamp()` is the start of the epoch, the same for all of its rows.

    In micro-batches that is the time to within a second; in real time it may be minutes off. A
    clock that is read for each row:

        F.timestamp_millis(F.expr("reflect('java.lang.System',
        'currentTimeMillis')").cast("bigint"))

    The time at which the record reached Kafka is in `_source.timestamp`, and is the same on replay.
    """
    for e in facts.plan.expressions:
        if e["kind"] == "clock":
            yield Found(
                e["text"],
                f"{e['text']} stands still for a whole epoch ({facts.plan.every_ms / 1000:g} s).",
                "use _source.timestamp, or a per-row clock as `eagre explain FROZEN_CLOCK` shows.",
                line=e["line"],
                numbers={"epoch_ms": facts.plan.every_ms},
            )


@rule(
    "PYTHON_COST",
    "advice",
    "Each batch crosses to a Python process and back, and waits for its slowest row.",
    real_time_only=False,
)
def python_cost(facts: Facts) -> Iterator[Found]:
    """A Python function runs in a worker process; rows go there and back in batches.

    In micro-batches that works, and costs CPU for each row: `python-map` beside `stateless` in
    `eagre bench run` shows how much on your machine. SQL expressions run inside the JVM at no extra
    cost. In real time Spark refuses it (PYTHON_UDF); `eg.udf` runs it there and here.
    """
    if facts.mode == "real-time":
        return
    for e in facts.plan.expressions:
        if e["kind"] == "python":
            name = e["text"].split("(")[0]
            yield Found(
                f"Python function {name}",
                f"the Python function {name} runs outside the JVM.",
                "make it with eg.udf, or write it in SQL expressions, where its cost matters.",
                line=e["line"],
            )


@rule(
    "CRASH_LOOP",
    "warning",
    "One such row ends the query; the restart reads the same row, and it ends again.",
    real_time_only=False,
)
def crash_loop(facts: Facts) -> Iterator[Found]:
    """ANSI mode is on by default: a cast, division or index that fails raises an error.

    In a stream that is a loop: the query dies, starts again before the row, and dies. The `try_`
    functions give null instead; `F.when(b != 0, a / b)` guards a division. Rows that `eg.Kafka`
    cannot parse never raise: they become dead letters.
    """
    if not facts.on("spark.sql.ansi.enabled", default=True):
        return
    for e in facts.plan.expressions:
        if e["kind"] in REMEDIES:
            yield Found(
                e["text"],
                f"{WORDS[e['kind']]} that fails on a bad row ends the query: {e['text']}.",
                REMEDIES[e["kind"]],
                line=e["line"],
            )
