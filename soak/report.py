"""The report of a soak as text and Markdown: counts, trends, and what would be after a month."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .verdict import Growth, Verdict

COUNTS = ("sent", "expected", "answered", "missing", "repeated", "kills", "restarts")
HEADINGS = ("pipeline", "resource", "level", "per hour", "99 %", "after a month", "verdict")


def report(verdict: Verdict) -> str:
    """Return the whole report in Markdown."""
    parts = [
        _summary(verdict),
        _table(("pipeline", *COUNTS), _counts(verdict)),
        _table(HEADINGS, map(_row, _shown(verdict.growths))),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(verdict: Verdict) -> str:
    word = "FAILED" if verdict.problems else "PASSED"
    faults = f"{verdict.faults} faults{_resumes(verdict.resumes)}"
    lines = [f"{word}: {verdict.hours:.2f} hours, {faults}"]
    lines += [f"- {problem}" for problem in verdict.problems]
    undecided = sum(growth.verdict == "open" for growth in verdict.growths)
    if undecided:
        lines.append(f"- not decided: {undecided} series, which need more hours")
    return "\n".join(lines)


def _resumes(seconds: list[float]) -> str:
    if not seconds:
        return ""
    p95 = seconds[math.ceil(len(seconds) * 0.95) - 1]
    return f"; results again after {statistics.median(seconds):.1f} s (p95 {p95:.1f} s)"


def _counts(verdict: Verdict) -> Iterable[tuple[str, ...]]:
    for name, line in sorted(verdict.counts.items()):
        yield (name, *(f"{line[count]:,}" for count in COUNTS))


def _shown(growths: list[Growth]) -> list[Growth]:
    """Return what is judged; first what grows, then what is not decided."""
    order = {"grows": 0, "open": 1, "bounded": 2}
    judged = [growth for growth in growths if growth.verdict in order and growth.trend]
    return sorted(judged, key=lambda growth: order[growth.verdict])


def _row(growth: Growth) -> tuple[str, ...]:
    trend, unit = growth.trend, growth.resource.unit
    if trend is None or growth.in_a_month is None:
        return (growth.pipeline, growth.resource.name, "", "", "", "", growth.verdict)
    return (
        growth.pipeline or "all",
        growth.resource.name,
        _written(trend.level, unit),
        _written(trend.slope, unit, signed=True),
        f"{trend.low:+.3g} to {trend.high:+.3g}",
        _written(growth.in_a_month, unit),
        growth.verdict,
    )


def _written(value: float, unit: str, *, signed: bool = False) -> str:
    number = f"{value:+.3g}" if signed else f"{value:,.4g}"
    return f"{number} {unit}".rstrip()


def _table(headings: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    head = tuple(headings)
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
