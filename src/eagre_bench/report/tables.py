"""The tables of a report: their figures and formats."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from eagre_bench.publish import number
from eagre_bench.report import plots

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre_bench.results import Figures

Cells = dict[str, Any]

NOTHING = "\N{EN DASH}"


@dataclass(frozen=True)
class Column:
    """A column of figures.

    Attributes:
        group: The heading over several columns.
        head: The heading of this column.
        name: The name of the figure.
        write: The format.
        spread: Whether its range over the rounds, or the boundaries, is shown below it.
        fault: Whether any value but zero is an error.
    """

    group: str
    head: str
    name: str
    write: Callable[[float], str] = number
    spread: bool = False
    fault: bool = False


COUNT = "{:,.0f}".format
LATENCY = (
    Column("latency, ms", "p50", "p50_ms", spread=True),
    Column("latency, ms", "p95", "p95_ms"),
    Column("latency, ms", "p99", "p99_ms", spread=True),
    Column("latency, ms", "p99.9", "p999_ms"),
    Column("latency, ms", "p99.99", "p9999_ms"),
    Column("latency, ms", "max", "max_ms"),
)
RESULTS = (
    Column("results", "counted", "records", COUNT),
    Column("results", "lost", "lost", COUNT, fault=True),
    Column("results", "repeated", "repeated", COUNT, fault=True),
    Column("results", "wrong", "wrong", COUNT, fault=True),
    Column("results", "negative", "negative", COUNT, fault=True),
)
COSTS = (
    Column("cost", "CPU s/M", "cpu_s_per_million"),
    Column("cost", "MB", "rss_mb", COUNT),
    Column("cost", "start s", "start_s"),
)
REPLAYED = Column("results", "repeated", "repeated", COUNT)
RECOVERY = Column("kill", "recovery ms", "recovery_ms", COUNT)
RATE = Column("rate", "held / s", "max_rate", COUNT)
TIMES = "{:.2f}x".format
AGAINST_COUNT = (
    Column("times count's", "p50", "p50_ratio", TIMES),
    Column("times count's", "p99", "p99_ratio", TIMES),
)
AT_BOUNDARIES = (
    Column("boundaries", "gap, ms", "gap_ms", spread=True),
    Column("boundaries", "counted", "boundaries", COUNT),
    Column("times flink's", "p50", "p50_ratio", TIMES),
    Column("times flink's", "p99", "p99_ratio", TIMES),
    Column("times flink's", "gap", "gap_ratio", TIMES),
)
FIRST = {"operators": AGAINST_COUNT, "boundary": AT_BOUNDARIES}
"""The first columns of a sweep."""
LATE = Column("load", "late p99 ms", "late_p99_ms")


def columns(results: dict[str, Figures], *, recovery: bool) -> list[Column]:
    """Return the columns of a table of results."""
    counts = [REPLAYED if recovery and c.name == "repeated" else c for c in RESULTS]
    rate = [RATE] if any("max_rate" in figures for figures in results.values()) else []
    return [*rate, *LATENCY, *counts, *COSTS, *([RECOVERY] if recovery else []), LATE]


def table(columns: list[Column], rows: list[Cells]) -> Cells:
    """Build a table from rows and columns."""
    groups = [(name, len(list(of))) for name, of in groupby(columns, lambda c: c.group)]
    begins = [sum(width for _, width in groups[:place]) for place in range(len(groups))]
    return {"groups": groups, "begins": begins, "columns": columns, "rows": rows}


def row(name: str, figures: Figures, columns: list[Column], system: str, under: str) -> Cells:
    """Format the figures of a system, or the reason why it was not measured."""
    measured = figures.get("p50_ms") is not None
    return {
        "name": name,
        "under": under,
        "system": system,
        "badge": _badge(figures, measured=measured),
        "note": _note(figures),
        "cells": [_cell(column, figures) for column in columns] if measured else [],
    }


def _badge(figures: Figures, *, measured: bool) -> str:
    if figures.get("valid"):
        return ""
    return "not run" if "refused" in figures else "invalid" if measured else "failed"


def _note(figures: Figures) -> str:
    """Return why a system was not measured, or which of its rounds are invalid."""
    if "refused" in figures:
        return str(figures["refused"])
    reasons = "; ".join(figures["problems"])
    if not reasons or not figures["valid"]:
        return reasons
    trials = figures["trials"]
    return (
        f"{len(trials) - len(plots.sound(figures))} of {len(trials)} rounds do not count: {reasons}"
    )


def _cell(column: Column, figures: Figures) -> Cells:
    value = figures.get(column.name)
    if value is None:
        return {"text": NOTHING, "spread": "", "fault": False}
    least = "\N{GREATER-THAN OR EQUAL TO} " if _bound(column, figures) else ""
    spread = figures["spread"].get(column.name) if column.spread else None
    return {
        "text": least + column.write(value),
        "spread": NOTHING.join(column.write(end) for end in spread) if spread else "",
        "fault": column.fault and bool(value),
    }


def _bound(column: Column, figures: Figures) -> bool:
    """Return whether the generator limited the highest rate."""
    return column is RATE and bool(figures.get("generator_bound"))
