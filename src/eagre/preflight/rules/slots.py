"""Task slots: each partition of each stage occupies one while the query runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.config import counted
from eagre.preflight.finding import Match, rule
from eagre.preflight.size import added

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
SPARK_DEFAULT = 200


@rule(
    "SLOTS_TOO_FEW",
    "error",
    "With shuffles, Spark fails the query. Without shuffles, it silently skips partitions.",
    "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT",
)
def slots_too_few(facts: Facts) -> Iterator[Match]:
    """In real time all stages run at the same time, and each of their partitions needs a task slot.

    The total is the number of source partitions, plus the partitions of each shuffle. For 8 source
    partitions and one shuffle of 20, that is 8 + 20 = 28 slots. With two such shuffles, it is 48.

    A query with shuffles fails if it has too few slots. A query without shuffles starts, and reads
    only as many partitions as there are slots: with 4 partitions and 2 slots it delivers half of
    the records, without an error or a log line. `eagre size APP.py` shows the total. In local mode
    a slot is a thread and costs little while it waits: use `--master local[64]`, Eagre's default.

    On a cluster a slot is a core. `eagre check --master URL` starts the executors and counts them.
    Elsewhere the check knows their number if the settings fix it: by `spark.executor.instances` and
    `spark.executor.cores`, by `spark.cores.max`, or by the defaults of YARN and Kubernetes. With
    dynamic allocation, and on a standalone cluster without a limit, the cluster decides, and this
    rule says nothing.
    """
    terms = facts.terms
    if terms is None or facts.slots is None or sum(terms) <= facts.slots:
        return
    needed = sum(terms)
    starving = len(terms) == 1
    outcome = (
        f"Spark would silently skip {counted(needed - facts.slots, 'partition')}"
        if starving
        else "Spark fails the query"
    )
    more = f"run with --master local[{needed}] or more"
    if not facts.local:
        more = f"ask the cluster for {needed} cores or more (spark.executor.instances)"
    if facts.executors is not None:
        more = (
            f"the cluster gave {counted(facts.executors, 'executor')}: add workers, stop another "
            f"application, or ask for {needed} cores (spark.cores.max, spark.executor.instances)"
        )
    yield Match(
        "task slots",
        f"the query needs {added(terms)} slots and the session has {facts.slots}: {outcome}.",
        more + ("." if starving else f", or lower {SHUFFLE_PARTITIONS}."),
        line=facts.plan.exchanges[-1].line if facts.plan.exchanges else "",
        numbers={"needed": needed, "slots": facts.slots},
        settings={"spark.master": f"local[{needed}]"} if facts.local else {},
        error_class="" if starving else "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT",
    )


@rule(
    "SHUFFLE_PARTITIONS",
    "warning",
    "200 tasks each hold a thread and a state store; epoch boundaries take long.",
)
def shuffle_partitions(facts: Facts) -> Iterator[Match]:
    """Spark's default of 200 shuffle partitions suits large batches.

    In real time each partition occupies a slot. For stateful operators, each also has a RocksDB
    instance that commits at every epoch boundary. A few partitions per core are enough: one handles
    tens of thousands of rows per second. The checkpoint keeps the number of the first start, so
    leave room to grow. `eagre checkpoint repartition` changes it later for Eagre's operators and
    processors; the state of `groupBy().agg()` cannot be repartitioned.
    """
    for node in facts.plan.exchanges:
        if int(node.detail["partitions"]) >= SPARK_DEFAULT:
            yield Match(
                SHUFFLE_PARTITIONS,
                f"a shuffle has {node.detail['partitions']} partitions.",
                "set it to a few per core; Eagre's profile uses half the number of cores.",
                line=node.line,
                numbers={"partitions": int(node.detail["partitions"])},
                settings={SHUFFLE_PARTITIONS: "8"},
            )
            return


@rule(
    "SEVERAL_QUERIES",
    "warning",
    "The queries compete for slots: one fails, or Spark never reads some of its partitions.",
)
def several_queries(facts: Facts) -> Iterator[Match]:
    """Spark recommends one real-time query per application.

    Each query occupies its slots permanently and does not account for the others. `eagre run`
    starts a separate Spark process for each pipeline of a file.
    """
    others = [query.name for query in facts.others if query.real_time]
    if others:
        yield Match(
            "session",
            f"this session already runs real-time queries: {', '.join(others)}.",
            "start each query in a separate session; `eagre run` does.",
            numbers={"others": len(others)},
        )


@rule("KEY_SKEW", "warning", "One task does most of the work, and its rows queue up.")
def key_skew(facts: Facts) -> Iterator[Match]:
    """A shuffle sends all rows of a key to one partition, so a hot key makes a hot partition.

    This rule needs a sample of the newest records (`eagre check --sample`). Aggregate in two
    pipelines, the first with a salted key, or process the hot key separately.
    """
    for keys, share, rows in facts.skew:
        if share > 0.5:  # noqa: PLR2004  (more than all other keys together)
            yield Match(
                f"keys {keys}",
                f"one key has {share:.0%} of {counted(rows, 'sampled row')}.",
                "salt the key in a first step, or process the hot key separately.",
                numbers={"share": round(share, 3), "rows": rows},
            )
