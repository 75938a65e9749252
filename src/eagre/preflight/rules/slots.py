"""Task slots: each partition of each stage holds one for as long as the query runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.config import counted
from eagre.preflight.finding import Found, rule
from eagre.preflight.size import added

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
SPARK_DEFAULT = 200


@rule(
    "SLOTS_TOO_FEW",
    "error",
    "With shuffles Spark fails the query; without, partitions are never read, without a word.",
    "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT",
)
def slots_too_few(facts: Facts) -> Iterator[Found]:
    """In real time all stages run at once, and each partition of each holds a task slot.

    The sum: source partitions, plus the shuffle partitions for each shuffle. 8 partitions into one
    shuffle of 20 need 8 + 20 = 28 slots, into two of 20 they need 48.

    A query with shuffles that does not get them fails. One without shuffles starts and reads only
    as many partitions as there are slots: 4 partitions on 2 slots deliver half of the records, with
    no error and no log line. `eagre size APP.py` shows the sum. In local mode a slot is a thread
    and costs little while it waits: `--master local[64]`, which is also Eagre's default.
    """
    terms = facts.terms
    if terms is None or facts.slots is None or sum(terms) <= facts.slots:
        return
    needed = sum(terms)
    starving = len(terms) == 1
    outcome = (
        f"{counted(needed - facts.slots, 'partition')} would never be read, silently"
        if starving
        else "Spark fails the query"
    )
    yield Found(
        "task slots",
        f"the query needs {added(terms)} slots and the session has {facts.slots}: {outcome}.",
        f"run with --master local[{needed}] or more"
        + ("." if starving else f", or lower {SHUFFLE_PARTITIONS}."),
        line=facts.plan.exchanges[-1].line if facts.plan.exchanges else "",
        numbers={"needed": needed, "slots": facts.slots},
        settings={"spark.master": f"local[{needed}]"},
        error_class="" if starving else "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT",
    )


@rule(
    "SHUFFLE_PARTITIONS",
    "warning",
    "200 tasks wait on threads of their own, each with a state store; epochs end slowly.",
)
def shuffle_partitions(facts: Facts) -> Iterator[Found]:
    """Spark's default of 200 shuffle partitions is made for large batches.

    In real time each holds a slot, and for stateful operators a RocksDB instance that commits at
    every epoch. A few per core is plenty: a partition handles tens of thousands of rows per second.
    The checkpoint fixes the number at the first start, so choose it once, with room to grow.
    """
    for node in facts.plan.exchanges:
        if int(node.detail["partitions"]) >= SPARK_DEFAULT:
            yield Found(
                SHUFFLE_PARTITIONS,
                f"a shuffle has {node.detail['partitions']} partitions.",
                "set it to a few per core; Eagre's profile has 2.",
                line=node.line,
                numbers={"partitions": int(node.detail["partitions"])},
                settings={SHUFFLE_PARTITIONS: "8"},
            )
            return


@rule(
    "SEVERAL_QUERIES",
    "warning",
    "The queries take each other's slots: one fails, or some of its partitions are never read.",
)
def several_queries(facts: Facts) -> Iterator[Found]:
    """One real-time query per Spark application is Spark's own advice.

    Each holds its slots for good and knows nothing of the others. `eagre run` gives each pipeline
    of a file a Spark process of its own.
    """
    others = [query.name for query in facts.others if query.real_time]
    if others:
        yield Found(
            "session",
            f"this session already runs in real time: {', '.join(others)}.",
            "start each query in a session of its own; `eagre run` does.",
            numbers={"others": len(others)},
        )


@rule("KEY_SKEW", "warning", "One task does most of the work; its rows wait in a queue.")
def key_skew(facts: Facts) -> Iterator[Found]:
    """A shuffle sends all rows of a key to one partition; a hot key makes a hot partition.

    Found in a sample of the newest records (`eagre check --sample`). Aggregate in two steps, with a
    salt among the keys of the first, in two pipelines; or take the hot key out and handle it apart.
    """
    for keys, share, rows in facts.skew:
        if share > 0.5:  # noqa: PLR2004  (more than all others together)
            yield Found(
                f"keys {keys}",
                f"one key has {share:.0%} of {counted(rows, 'sampled row')}.",
                "salt the key in a first step, or handle the hot key apart.",
                numbers={"share": round(share, 3), "rows": rows},
            )
