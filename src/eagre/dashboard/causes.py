"""What holds the tail back: each slow second is put down to what was seen in it.

A second is slow where its worst result took three times the usual median, and 10 ms at least. The
causes are asked in the order in which one hides the others; the first that fits has it.
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
"""Around the end of an epoch: rows wait for the commit, and the next epoch's tasks warm up."""
WARM_SECONDS = 10.0
"""After a start: classes are loaded and code is compiled while the first rows wait."""
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
        id: A word for machines.
        title: For people.
        hint: What to do.
        seen: Tells by a second, and what is around it, whether it fits, and by what.
    """

    id: str
    title: str
    hint: str
    seen: Callable[[Second, Around], str]


@dataclass(frozen=True)
class Around:
    """What is known beside the seconds.

    Attributes:
        ends: When epochs ended, in seconds since 1970.
        mode: Real time or micro-batch.
        starved: Partitions that nobody reads.
        starts: When the pipeline began to run, each time.
    """

    ends: Sequence[float]
    mode: str
    starved: Sequence[str]
    starts: Sequence[float]


def causes(seconds: Sequence[Second], around: Around) -> list[dict[str, Any]]:
    """Say what held the tail back, the most frequent first.

    Args:
        seconds: As the page shows them, the oldest first.
        around: What else is known.
    """
    measured = [one for one in _with_pauses(seconds[-WINDOW:]) if one.get("records")]
    if not measured:
        return []
    usual = median(one["p50_ms"] for one in measured)
    slow = [one for one in measured if one["max_ms"] >= max(SLOW_MS, SLOW_TIMES * usual)]
    found: dict[str, dict[str, Any]] = {}
    for second in slow:
        cause, evidence = _first(second, around)
        one = found.setdefault(
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
        one["seconds"] += 1
        if second["max_ms"] >= one["worst_ms"]:
            one |= {"worst_ms": second["max_ms"], "evidence": evidence, "at": second["t"]}
    return sorted(found.values(), key=lambda one: (-one["seconds"], -one["worst_ms"]))


def _with_pauses(seconds: Sequence[Second]) -> list[Second]:
    """Let each second have the pause that is told a second late, too."""
    late = [*seconds, {}][1:]
    return [
        {**one, "pause_ms": max(one.get("pause_ms") or 0, after.get("pause_ms") or 0)}
        for one, after in zip(seconds, late, strict=True)
    ]


def _first(second: Second, around: Around) -> tuple[Cause, str]:
    for cause in CAUSES:
        if evidence := cause.seen(second, around):
            return cause, evidence
    return ELSEWHERE, "no pause, boundary, partition or sink stands out in that second"


def _started(second: Second, around: Around) -> str:
    ago = [second["t"] - at for at in around.starts if 0 <= second["t"] - at <= WARM_SECONDS]
    return f"it had started {min(ago):.0f} s before: first rows meet cold code" if ago else ""


def _boundary(second: Second, around: Around) -> str:
    if around.mode != "real-time":
        return ""
    begin, end = second["t"] - 1 - AFTER_SECONDS, second["t"] + BEFORE_SECONDS
    near = [at for at in around.ends if begin <= at <= end]
    return "an epoch ended there: rows wait while it commits" if near else ""


def _trigger(second: Second, around: Around) -> str:
    wait = second.get("wait_ms")
    if around.mode == "real-time" or wait is None or wait < MOST_OF_IT * second["mean_ms"]:
        return ""
    return f"records waited {wait:,.0f} ms on average for the next trigger"


def _collector(second: Second, _: Around) -> str:
    pause = second.get("pause_ms") or 0
    if pause < PAUSE_SHARE * second["max_ms"]:
        return ""
    return f"a collection stopped the JVM for {pause:,.0f} ms of the {second['max_ms']:,.0f}"


def _starved(_: Second, around: Around) -> str:
    return f"nobody reads {', '.join(around.starved)}" if around.starved else ""


def _hot(second: Second, _: Around) -> str:
    by = {at: one for at, one in second.get("partitions", {}).items() if one[0] >= ENOUGH}
    if len(by) > 1:
        slowest = max(by, key=lambda at: by[at][1])
        others = median(one[1] for at, one in by.items() if at != slowest)
        if by[slowest][1] >= HOT_TIMES * max(others, 1.0):
            return f"{slowest} took {by[slowest][1]:,.0f} ms on average, the others {others:,.0f}"
    lags = second.get("lags", {})
    if len(lags) > 1:
        longest = max(lags, key=lambda at: lags[at])
        rest = median(lag for at, lag in lags.items() if at != longest)
        if lags[longest] >= max(HOT_LAG, HOT_TIMES * rest):
            return f"{longest} is {lags[longest]:,} records behind, the others {rest:,.0f}"
    return ""


def _share(name: str, words: str) -> Callable[[Second, Around], str]:
    def seen(second: Second, _: Around) -> str:
        part = second.get(name)
        if part is None or part < MOST_OF_IT * second["mean_ms"]:
            return ""
        return f"{part:,.1f} of {second['mean_ms']:,.1f} ms on average {words}"

    return seen


CAUSES = (
    Cause(
        "starved",
        "starved partition",
        "too few task slots: `eagre size` has the sum.",
        _starved,
    ),
    Cause(
        "start",
        "just started",
        "it passes; a warm-up before real traffic hides it.",
        _started,
    ),
    Cause(
        "trigger",
        "waiting for the trigger",
        "that is what micro-batches cost; --mode real-time does without.",
        _trigger,
    ),
    Cause(
        "boundary",
        "epoch boundary",
        "longer epochs have fewer of them: --every.",
        _boundary,
    ),
    Cause(
        "collector",
        "collector pause",
        "a larger heap pauses less often; `eagre check` knows the collector.",
        _collector,
    ),
    Cause(
        "hot",
        "skewed or hot partition",
        "more partitions, or a key that spreads; `eagre check --sample` finds hot keys.",
        _hot,
    ),
    Cause(
        "sink",
        "slow sink",
        "look at the output's cluster: acks, replication, disk.",
        _share("after_sent_ms", "passed between the sink's producer and a reader"),
    ),
    Cause(
        "source",
        "waiting in the source topic",
        "the pipeline does not keep up, or its cores are taken: lag and partitions tell.",
        _share("wait_ms", "passed before a task took the record"),
    ),
    Cause(
        "pipeline",
        "in the pipeline",
        "functions, state and shuffles: the graph shows the stages.",
        _share("pipeline_ms", "passed inside the pipeline"),
    ),
)
ELSEWHERE = Cause(
    "elsewhere",
    "not told apart",
    "often the machine: too few cores for broker, Spark and load.",
    lambda *_: "",
)
