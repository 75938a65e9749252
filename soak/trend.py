"""Robust trends: the slope of a series that is noisy, restarted by faults, and perhaps seasonal.

The slope is the median over pairs of points (Theil and Sen), its interval that of Kendall's rank
statistic. Outliers do not move it, and no distribution is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

CONFIDENCE = 2.576
"""The standard deviations of an interval that holds 99 % of the slopes."""
FEWEST = 8
"""With fewer points in its longest group, a series has no trend."""


class Point(NamedTuple):
    """A sample.

    Attributes:
        hours: When.
        value: What was measured.
        life: The process that it was measured in: a new one begins at another level.
    """

    hours: float
    value: float
    life: str = ""


@dataclass(frozen=True)
class Trend:
    """How a series changes.

    Attributes:
        level: The median of its last quarter.
        slope: The change in an hour.
        low: The lower end of the slope's interval.
        high: The upper end.
        points: How many points it was computed from.
    """

    level: float
    slope: float
    low: float
    high: float
    points: int

    def after(self, hours: float) -> float:
        """Return the level after so many more hours, if it goes on like this."""
        return self.level + self.slope * hours


def trend(points: Iterable[Point], season_hours: float = 0.0) -> Trend | None:
    """Return the trend of a series; None if it has too few points.

    Points are compared only within a life. If the values have a season, only points of
    the same time in it are: state that grows for an hour and is then dropped has no trend.

    >>> line = [Point(hour, 5 + 2 * hour) for hour in range(10)]
    >>> trend(line).slope
    2.0
    >>> restarted = [Point(hour, 2 * (hour % 10), str(hour // 10)) for hour in range(20)]
    >>> trend(restarted).slope
    2.0
    >>> trend(line[:3]) is None
    True
    """
    ordered = sorted(points)
    groups = _comparable(ordered, season_hours)
    slopes = sorted(
        (b.value - a.value) / (b.hours - a.hours)
        for group in groups
        for a, b in combinations(group, 2)
        if b.hours > a.hours
    )
    enough = len(ordered) if season_hours else max(map(len, groups), default=0)
    if enough < FEWEST or not slopes:
        return None
    spread = CONFIDENCE * math.sqrt(sum(_variance(len(group)) for group in groups))
    tail = ordered[-max(1, len(ordered) // 4) :]
    return Trend(
        level=median(point.value for point in tail),
        slope=median(slopes),
        low=slopes[max(0, math.floor((len(slopes) - spread) / 2))],
        high=slopes[min(len(slopes) - 1, math.ceil((len(slopes) + spread) / 2))],
        points=sum(map(len, groups)),
    )


def _comparable(points: list[Point], season_hours: float) -> list[list[Point]]:
    """Group the points that may be compared with each other; a group has at least two."""
    groups: dict[tuple[str, int], list[Point]] = {}
    for point in points:
        phase = round(point.hours % season_hours * 60) if season_hours else 0
        groups.setdefault((point.life, phase), []).append(point)
    return [group for group in groups.values() if len(group) > 1]


def _variance(size: int) -> float:
    """Return the variance of Kendall's statistic without a trend."""
    return size * (size - 1) * (2 * size + 5) / 18
