"""The summary of a trial, and the tables of a campaign for the documentation."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from .shapes import SHAPES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Line = dict[str, Any]
BEGIN, END = "<!-- chaos -->", "<!-- /chaos -->"
COUNTS = ("checked", "lost", "repeated", "wrong", "disordered")


def summary(line: Line) -> str:
    """Summarise a trial in a few lines."""
    text = (
        f"{line['shape']}: {line['checked']:,} results checked, "
        f"{len(line['rounds'])} faults, {line['lost']} lost, "
        f"{line['repeated']} repeated ({line['repeated_plain']} for a plain reader), "
        f"{line['wrong']} wrong, {line['disordered']} keys out of order, "
        f"{line['void']} rejected by fences; {line['minutes']} min"
    )
    failure = f"\n  FAILED: {line['failure']}" if line["failure"] else ""
    return text + failure + "".join(f"\n  {example}" for example in line["examples"][:6])


def tables(lines: list[Line]) -> str:
    """Return the tables: by shape, by fault, and what happened to flipped bytes."""
    return "\n\n".join([_by_shape(lines), _by_fault(lines)])


def write_table(page: Path, lines: list[Line]) -> None:
    """Replace the tables in a page of the documentation."""
    block = f"{BEGIN}\n{tables(lines)}\n{END}"
    text = page.read_text()
    page.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: block, text, flags=re.DOTALL))


def _by_shape(lines: list[Line]) -> str:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        for name in (line["shape"], ""):
            sums[name].update({count: line[count] for count in COUNTS})
            sums[name]["faults"] += len(line["rounds"])
            sums[name]["trials"] += 1
            sums[name]["failed"] += bool(line["failure"])
    rows = [_shape_row(name, sums[name]) for name in SHAPES if name in sums]
    head = ("pipeline", "promise", "trials", "faults", "results", "lost", "repeated", "wrong",
            "out of order", "not finished")  # fmt: skip
    return _table(head, [*rows, _shape_row("", sums[""])])


def _shape_row(name: str, sums: Counter[str]) -> list[str]:
    once = SHAPES[name].exactly_once if name else False
    promise = "exactly once" if once else "final values" if _is_final(name) else "at least once"
    repeated = f"{sums['repeated']:,}" if once else "-"
    return [
        name or "all",
        promise if name else "",
        *(f"{sums[count]:,}" for count in ("trials", "faults", "checked", "lost")),
        repeated if name else "",
        *(f"{sums[count]:,}" for count in ("wrong", "disordered", "failed")),
    ]


def _is_final(name: str) -> bool:
    return bool(name) and bool(SHAPES[name].latest)


def _by_fault(lines: list[Line]) -> str:
    times: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        for done in line["rounds"]:
            times[done["fault"]].append(done["seconds"])
    rows = [
        [name, str(len(seconds)), f"{statistics.median(seconds):.1f}", f"{p95(seconds):.1f}"]
        for name, seconds in sorted(times.items())
    ]
    return _table(("fault", "times", "seconds to results: median", "95th"), rows)


def p95(values: Iterable[float]) -> float:
    """Return the 95th percentile.

    >>> p95(range(1, 101))
    95
    """
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * 0.95) - 1]


def _table(head: Iterable[str], rows: Iterable[list[str]]) -> str:
    head = list(head)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
