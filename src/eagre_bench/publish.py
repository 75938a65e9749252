"""Writes the benchmark's tables into the README and the docs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from eagre_bench.errors import BenchError
from eagre_bench.results import reason

if TYPE_CHECKING:
    from pathlib import Path

    from eagre_bench.results import Document

COLUMNS = {"p50_ms": "p50", "p95_ms": "p95", "p99_ms": "p99", "p999_ms": "p99.9", "max_ms": "max"}
COSTS = {"cpu_s_per_million": "CPU s per million", "rss_mb": "memory, MB"}


def publish(document: Document, files: list[Path]) -> list[Path]:
    """Replace the tables between ``<!-- bench:WORKLOAD -->`` markers; return the changed files.

    Raises:
        BenchError: No file has a marker for any workload of the run.
    """
    if not any(_marks(path, document) for path in files):
        raise BenchError(
            "NOWHERE_TO_PUBLISH",
            f"none of {', '.join(map(str, files))} has a marker for the workloads of this run.",
            hint="write <!-- bench:field --> and <!-- /bench --> where the table belongs.",
        )
    return [path for path in files if path.is_file() and _rewrite(path, document)]


def table(document: Document, workload: str) -> str:
    """Return the table of a workload in Markdown, with date, machine and commit."""
    results = document["results"][workload]
    head = [
        "latency in ms",
        *COLUMNS.values(),
        *COSTS.values(),
        "micro-batch ÷ this system, p50 / p99",
    ]
    rows = [_row(document, workload, name, figures) for name, figures in results.items()]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return (
        "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n" + _foot(document, workload)
    )


def _row(document: Document, workload: str, name: str, figures: dict[str, Any]) -> list[str]:
    width = len(COLUMNS) + len(COSTS) + 1
    title = f"`{name}`"
    if not figures.get("valid"):
        return [f"{title}: {reason(figures)}", *[""] * width]
    against = document["ratios"][workload][name].get("spark-micro-batch")
    return [
        title,
        *(number(figures[column]) for column in COLUMNS),
        *(number(figures[column]) for column in COSTS),
        " / ".join(_times(against[m]) for m in ("p50_ms", "p99_ms")) if against else "",
    ]


def _times(ratio: dict[str, Any]) -> str:
    return f"{number(ratio['ratio'])}x" if ratio["differs"] else "no difference"


def _foot(document: Document, workload: str) -> str:
    machine, chosen = document["machine"], document["workloads"][workload]
    noise = document["control"][workload].get("noise", {})
    twice = (
        f" `{document['control'][workload]['system']}` measured again differs from itself by up to "
        f"{noise['p50_ms']:.1f}x at p50 and {noise['p99_ms']:.1f}x at p99."
        if noise
        else ""
    )
    return (
        f"{chosen['rate']:,.0f} records/s, {chosen['warmup']:g} s of warm-up, "
        f"{chosen['seconds']:g} s measured, medians of {document['options']['rounds']} rounds."
        f"{twice} {document['date']}, {machine['cores']} cores ({machine['cpu']}), "
        f"Java {machine['java']}, commit {document['commit']}.\n"
    )


def number(value: float) -> str:
    """Format a figure with its significant digits.

    >>> number(0.4712), number(3.42), number(61.26), number(1043.0)
    ('0.47', '3.4', '61', '1,043')
    """
    if value < 1:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004


def _marks(path: Path, document: Document) -> bool:
    text = path.read_text() if path.is_file() else ""
    return any(f"<!-- bench:{workload} -->" in text for workload in document["results"])


def _rewrite(path: Path, document: Document) -> bool:
    before = path.read_text()
    text = before
    for workload in document["results"]:
        begin, end = f"<!-- bench:{workload} -->", "<!-- /bench -->"
        written = f"{begin}\n{table(document, workload)}{end}".replace("\\", r"\\")
        text = re.sub(re.escape(begin) + ".*?" + end, written, text, flags=re.DOTALL)
    path.write_text(text)
    return text != before
