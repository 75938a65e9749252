"""Finds the highest rate that a system sustains with its p99 below a bound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eagre_bench.campaign import BEHIND

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre_bench.workload import Workload

HELD_BELOW_MS = 100.0
REFINEMENTS = 2
TRIES = 2
"""A pause of the machine is not a limit of the system."""
HIGHEST_RATE = 128_000

Figures = dict[str, Any]


def find_rate(chosen: Workload, measure: Callable[[Workload], Figures]) -> Figures:
    """Double the rate until the system cannot sustain it, then halve the step.

    A rate is too high if a second trial fails as well.

    Returns the figures of the highest sustained rate, with ``max_rate`` and every rate tried.
    If the generator was late first, ``generator_bound`` is true: the system may sustain
    more.
    """
    tried: list[Figures] = []
    best: Figures | None = None

    def held(rate: float) -> bool:
        return any(tried_once(rate) for _ in range(TRIES))

    def tried_once(rate: float) -> bool:
        nonlocal best
        figures = measure(replace(chosen, rate=round(rate)))
        good = holds(figures)
        tried.append({"rate": round(rate), "held": good, **_short(figures)})
        if good:
            best = {**figures, "max_rate": round(rate)}
        return good

    low, high = 0.0, chosen.rate
    while high <= HIGHEST_RATE and held(high):
        low, high = high, high * 2
    for _ in range(REFINEMENTS if high <= HIGHEST_RATE else 0):
        middle = (low * high) ** 0.5 if low else high / 2
        low, high = (middle, high) if held(middle) else (low, middle)
    bound = any(problem.startswith(BEHIND) for t in tried for problem in t["problems"])
    none = f"not even {high:,.0f} records/s were held"
    result = best or {"failed": none, "problems": [none], "max_rate": 0}
    return {**result, "rates": tried, "generator_bound": bound}


def holds(figures: Figures) -> bool:
    """Return whether the results of a trial were correct and in time.

    >>> holds({"problems": [], "p99_ms": 12.0}), holds({"problems": [], "p99_ms": 130.0})
    (True, False)
    """
    return not figures["problems"] and figures["p99_ms"] < HELD_BELOW_MS


def _short(figures: Figures) -> Figures:
    names = ("p50_ms", "p99_ms", "late_p99_ms", "cpu_s_per_million", "problems")
    return {name: figures[name] for name in names if name in figures}
