"""What the samples of a soak say: which resource still grows, and what was lost or repeated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .trend import Point, Trend, trend
from .use_cases import USE_CASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MONTH_HOURS = 30 * 24.0
LONGEST_WARMUP_HOURS = 0.5
WARMUP_SHARE = 0.25
LEAST_HOURS = 0.5
"""A shorter steady state shows only how a process warms up."""
FADED = 0.5
"""Growth whose slope in the second half is below this share of the whole has faded: it ends."""

Line = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A resource that must be bounded.

    Attributes:
        name: Its name in the samples.
        unit: Its unit.
        budget: By how much it may grow in a month, in its unit.
        relative: Whether the budget is a share of its level instead.
        limit: Its documented bound: below it, growth is not a leak.
    """

    name: str
    unit: str
    budget: float
    relative: bool = False
    limit: float | None = None


RESOURCES = (
    Resource("supervisor.rss_mb", "MB", 100),
    Resource("supervisor.threads", "", 10),
    Resource("supervisor.fds", "", 20),
    Resource("driver.rss_mb", "MB", 100),
    Resource("driver.threads", "", 10),
    Resource("driver.fds", "", 20),
    Resource("jvm.live_heap_mb", "MB", 100),
    Resource("jvm.metaspace_mb", "MB", 50),
    Resource("jvm.native_mb", "MB", 300),
    Resource("jvm.threads", "", 50),
    Resource("jvm.fds", "", 50),
    Resource("workers.processes", "", 5),
    Resource("workers.rss_mb", "MB", 200),
    Resource("workers.fds", "", 50),
    Resource("checkpoint.mb", "MB", 100),
    Resource("checkpoint.files", "", 200),
    Resource("temporary.mb", "MB", 100),
    Resource("temporary.files", "", 100),
    Resource("logs.mb", "MB", 0, limit=222),
    Resource("logs.files", "", 0, limit=24),
    Resource("broker.rss_mb", "MB", 200),
    Resource("broker.threads", "", 10),
    Resource("broker.fds", "", 500),
    Resource("registry.mb", "MB", 1),
    Resource("registry.files", "", 20),
    Resource("latency.p50_ms", "ms", 0.5, relative=True),
    Resource("latency.p99_ms", "ms", 1.0, relative=True),
)
"""The heap in use is not one of them: it has a limit, and is collected when it is reached."""


@dataclass(frozen=True)
class Growth:
    """The verdict on one resource of one pipeline.

    Attributes:
        pipeline: The pipeline; empty for what all share.
        resource: The resource.
        trend: Its trend; None with too few samples.
        verdict: ``grows``, ``bounded``, or ``open`` if more hours are needed to know.
    """

    pipeline: str
    resource: Resource
    trend: Trend | None
    verdict: str

    @property
    def in_a_month(self) -> float | None:
        """The value after a month, at most the limit; the level if no growth is proven."""
        if self.trend is None:
            return None
        growing = self.trend.low > 0 or self.trend.high < 0
        value = max(0.0, self.trend.after(MONTH_HOURS)) if growing else self.trend.level
        return min(value, self.resource.limit or value)


@dataclass
class Verdict:
    """The verdict on a soak; it has failed if there is any problem."""

    hours: float
    growths: list[Growth]
    counts: dict[str, Line]
    faults: int
    resumes: list[float]
    problems: list[str] = field(default_factory=list)


def judge(lines: Iterable[Line]) -> Verdict:
    """Judge the recorded lines of a soak."""
    lines = list(lines)
    samples = [line for line in lines if line["kind"] == "sample"]
    hours = max((line["hours"] for line in samples), default=0.0)
    growths = [_growth(*series, hours) for series in sorted_series(samples).items()]
    counts = {line["pipeline"]: line for line in lines if line["kind"] == "counts"}
    faults = [line for line in lines if line["kind"] == "fault"]
    resumes = [line["seconds"] for line in lines if line["kind"] == "resumed"]
    verdict = Verdict(hours, growths, counts, len(faults), sorted(resumes))
    verdict.problems += [problem for line in counts.values() for problem in _wrong(line)]
    verdict.problems += [line["text"] for line in lines if line["kind"] == "problem"]
    verdict.problems += [
        f"{_title(growth)} grows by {growth.trend.slope:.3g} {growth.resource.unit}/h"
        for growth in growths
        if growth.verdict == "grows" and growth.trend
    ]
    return verdict


def sorted_series(samples: Iterable[Line]) -> dict[tuple[str, str], list[Point]]:
    """Return the points of each pipeline and resource."""
    series: dict[tuple[str, str], list[Point]] = {}
    for line in samples:
        for name, value in line["values"].items():
            if value is not None:
                point = Point(line["hours"], value, line["lives"].get(name, ""))
                series.setdefault((line["pipeline"], name), []).append(point)
    return dict(sorted(series.items()))


def _growth(key: tuple[str, str], points: list[Point], hours: float) -> Growth:
    pipeline, name = key
    resource = next((r for r in RESOURCES if r.name == name), None)
    if resource is None:
        return Growth(pipeline, Resource(name, "", float("inf")), None, "shown")
    case = USE_CASES.get(pipeline)
    warmup = min(LONGEST_WARMUP_HOURS, WARMUP_SHARE * hours)
    steady = list(_steady(points, warmup, case.balance_minutes / 60 if case else 0.0))
    season = case.season_minutes / 60 if case else 0.0
    whole = trend(steady, season)
    if whole is None or steady[-1].hours - steady[0].hours < LEAST_HOURS:
        return Growth(pipeline, resource, whole, "open")
    middle = (steady[0].hours + steady[-1].hours) / 2
    recent = trend((point for point in steady if point.hours >= middle), season)
    return Growth(pipeline, resource, whole, _decided(resource, whole, recent))


def _steady(points: list[Point], warmup: float, balance: float) -> Iterator[Point]:
    """Yield the points after the warm-up of their life, and after the state is in balance."""
    began: dict[str, float] = {}
    for point in points:
        since = began.setdefault(point.life, point.hours)
        if point.hours >= max(since + warmup, balance):
            yield point


def _decided(resource: Resource, whole: Trend, recent: Trend | None) -> str:
    if resource.limit is not None:
        return "grows" if whole.level > resource.limit else "bounded"
    allowed = resource.budget * (whole.level if resource.relative else 1.0) / MONTH_HOURS
    if whole.low > allowed:
        lasts = recent is None or recent.slope >= max(allowed, FADED * whole.slope)
        return "grows" if lasts else "open"
    return "bounded" if whole.high <= allowed else "open"


def _wrong(counts: Line) -> Iterator[str]:
    """Yield what is wrong with the results of a pipeline."""
    name = counts["pipeline"]
    if counts["missing"]:
        examples = ", ".join(f"{partition}/{offset}" for partition, offset in counts["examples"])
        yield f"{name}: {counts['missing']:,} results are missing, such as that of {examples}"
    if counts["unexplained"]:
        yield f"{name}: {counts['unexplained']:,} results were repeated although nothing was killed"
    if counts["dead_letters"] < counts["broken"]:
        yield f"{name}: {counts['broken'] - counts['dead_letters']:,} dead letters are missing"
    if counts["restarts"] > counts["kills"]:
        extra = counts["restarts"] - counts["kills"]
        yield f"{name}: it was restarted {extra} times more often than it was killed"
    if not counts["answered"]:
        yield f"{name}: no event had a result"


def _title(growth: Growth) -> str:
    return f"{growth.pipeline or 'all'} {growth.resource.name}"
