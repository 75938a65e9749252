"""Causes of tail latency: attributes each slow second to what happened in it.

A second is slow if its slowest result took at least three times the usual median and at least 10
ms. The causes are tried in an order in which earlier ones mask later ones; the first match wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WINDOW = 300
SLOW_TIMES = 3.0
SLOW_MS = 10.0
BEFORE_SECONDS = 0.3
AFTER_SECONDS = 1.5
"""Rows wait for a commit that pauses the stream; after an epoch boundary new tasks warm up."""
WARM_SECONDS = 10.0
"""After a start, the JVM loads classes and compiles code while the first rows wait."""
PAUSE_SHARE = 0.3
MOST_OF_IT = 0.5
HOT_TIMES = 3.0
HOT_LAG = 100
ENOUGH = 5

Second = dict[str, Any]


@dataclass(frozen=True)
class Cause:
    """A reason for slow seconds.

    Attributes:
        id: A stable identifier.
        title: The name on the dashboard.
        hint: What to do about it.
        evidence: Returns the evidence for this cause in a second; empty if there is none.
    """

    id: str
    title: str
    hint: str
    evidence: Callable[[Second, CauseContext], str]


@dataclass(frozen=True)
class CauseContext:
    """What is known in addition to the seconds.

    Attributes:
        commits: The commits that paused the stream, in seconds since 1970.
        mode: Real time or micro-batch.
        starved: Partitions that no task reads.
        starts: When the pipeline started, each time.
    """

    commits: Sequence[float]
    mode: str
    starved: Sequence[str]
    starts: Sequence[float]


def causes(seconds: Sequence[Second], context: CauseContext) -> list[dict[str, Any]]:
    """Return the causes of slow seconds, most frequent first.

    Args:
        seconds: The seconds of the dashboard, oldest first.
        context: What else is known.
    """
    measured = [second for second in _with_pauses(seconds[-WINDOW:]) if second.get("records")]
    if not measured:
        return []
    usual = median(second["p50_ms"] for second in measured)
    slow_ms = max(SLOW_MS, SLOW_TIMES * usual)
    slow = [second for second in measured if second["max_ms"] >= slow_ms]
    by_cause: dict[str, dict[str, Any]] = {}
    for second in slow:
        cause, evidence = _first(second, context)
        entry = by_cause.setdefault(
            cause.id,
            {
                "id": cause.id,
                "title": cause.title,
                "hint": cause.hint,
                "seconds": 0,
                "worst_ms": 0.0,
                "evidence": "",
            },
        )
        entry["seconds"] += 1
        if second["max_ms"] >= entry["worst_ms"]:
            entry |= {"worst_ms": second["max_ms"], "evidence": evidence, "at": second["t"]}
    return sorted(by_cause.values(), key=lambda entry: (-entry["seconds"], -entry["worst_ms"]))


def _with_pauses(seconds: Sequence[Second]) -> list[Second]:
    """Add to each second the pause that the next one reports: reports may be a second late."""
    following = [*seconds, {}][1:]
    return [
        {**second, "pause_ms": max(second.get("pause_ms") or 0, after.get("pause_ms") or 0)}
        for second, after in zip(seconds, following, strict=True)
    ]


def _first(second: Second, context: CauseContext) -> tuple[Cause, str]:
    for cause in CAUSES:
        if evidence := cause.evidence(second, context):
            return cause, evidence
    return UNKNOWN, "no pause, commit, partition or sink explains that second"


def _started(second: Second, context: CauseContext) -> str:
    ago = [second["t"] - at for at in context.starts if 0 <= second["t"] - at <= WARM_SECONDS]
    return (
        f"the pipeline had started {min(ago):.0f} s before: the JVM was still warming up"
        if ago
        else ""
    )


def _commit(second: Second, context: CauseContext) -> str:
    if context.mode != "real-time":
        return ""
    begin, end = second["t"] - 1 - AFTER_SECONDS, second["t"] + BEFORE_SECONDS
    near = [at for at in context.commits if begin <= at <= end]
    return "rows waited for a commit" if near else ""


def _trigger(second: Second, context: CauseContext) -> str:
    wait = second.get("wait_ms")
    if context.mode == "real-time" or wait is None or wait < MOST_OF_IT * second["mean_ms"]:
        return ""
    return f"records waited {wait:,.0f} ms on average for the next trigger"


def _gc(second: Second, _: CauseContext) -> str:
    pause = second.get("pause_ms") or 0
    if pause < PAUSE_SHARE * second["max_ms"]:
        return ""
    return f"GC paused the JVM for {pause:,.0f} of {second['max_ms']:,.0f} ms"


def _starved(_: Second, context: CauseContext) -> str:
    return f"no task reads {', '.join(context.starved)}" if context.starved else ""


def _hot(second: Second, _: CauseContext) -> str:
    means = {at: ms for at, (n, ms, *_) in second.get("partitions", {}).items() if n >= ENOUGH}
    if len(means) > 1:
        slowest = max(means, key=lambda at: means[at])
        others = median(ms for at, ms in means.items() if at != slowest)
        if means[slowest] >= HOT_TIMES * max(others, 1.0):
            return f"{slowest} took {means[slowest]:,.0f} ms on average, the others {others:,.0f}"
    lags = second.get("lags", {})
    if len(lags) > 1:
        longest = max(lags, key=lambda at: lags[at])
        rest = median(lag for at, lag in lags.items() if at != longest)
        if lags[longest] >= max(HOT_LAG, HOT_TIMES * rest):
            return f"{longest} has a lag of {lags[longest]:,} records, the others of {rest:,.0f}"
    return ""


def _share(name: str, text: str) -> Callable[[Second, CauseContext], str]:
    def evidence(second: Second, _: CauseContext) -> str:
        part = second.get(name)
        if part is None or part < MOST_OF_IT * second["mean_ms"]:
            return ""
        return f"{part:,.1f} of {second['mean_ms']:,.1f} ms on average {text}"

    return evidence


CAUSES = (
    Cause(
        "starved",
        "starved partition",
        "add task slots: `eagre size` shows how many are needed.",
        _starved,
    ),
    Cause(
        "start",
        "just started",
        "it is temporary; warm up the pipeline before real traffic.",
        _started,
    ),
    Cause(
        "trigger",
        "waiting for the trigger",
        "micro-batches wait for a trigger; --mode real-time does not.",
        _trigger,
    ),
    Cause(
        "commit",
        "commit",
        "a longer --every means fewer commits; most shapes commit without a pause, or a short one.",
        _commit,
    ),
    Cause(
        "gc",
        "GC pause",
        "a larger heap pauses less often; `eagre check` checks the choice of GC.",
        _gc,
    ),
    Cause(
        "hot",
        "skewed or hot partition",
        "use more partitions or a more even key; `eagre check --sample` finds hot keys.",
        _hot,
    ),
    Cause(
        "sink",
        "slow sink",
        "check the output's cluster: acks, replication, disk.",
        _share("after_sent_ms", "passed between the sink's producer and a consumer"),
    ),
    Cause(
        "source",
        "waiting in the source topic",
        "the pipeline does not keep up, or its cores are busy: see lag and partitions.",
        _share("wait_ms", "passed before a task read the record"),
    ),
    Cause(
        "pipeline",
        "in the pipeline",
        "check functions, state and shuffles: the graph shows the stages.",
        _share("pipeline_ms", "passed inside the pipeline"),
    ),
)
UNKNOWN = Cause(
    "elsewhere",
    "unknown",
    "often the machine has too few cores for broker, Spark and load.",
    lambda *_: "",
)
