"""The texts and plots of the report for each kind of sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre_bench.publish import number
from eagre_bench.report import plots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from eagre_bench.results import Document

COMPARED_WITH_COUNT = {"p50_ratio": "its p50", "p99_ratio": "its p99"}


def _trigger_plots(document: Document) -> list[str]:
    return [plots.trigger_sweep(document["points"], document["baseline"])]


def _epoch_plots(document: Document) -> Iterable[str]:
    points = document["points"]
    yield plots.epoch_sweep(points, tuple(plots.SWEPT), "Latency")
    for name, title in (("recovery_ms", "Recovery after a kill"), ("repeated", "Rows replayed")):
        if any(point.get(name) is not None for point in points):
            yield plots.epoch_sweep(points, (name,), title)


def _trigger_words(document: Document) -> str:
    valid = [point for point in document["points"] if point["valid"]]
    baseline = document["baseline"]
    if not valid or not baseline or not baseline["valid"]:
        return ""
    best = min(valid, key=lambda point: point["p50_ms"])
    p50, p99 = (plots.factor(best[name] / baseline[name]) for name in ("p50_ms", "p99_ms"))
    return (
        f"The fastest micro-batches, with a trigger of {best['label']}, reach a p50 of "
        f"{number(best['p50_ms'])} ms and a p99 of {number(best['p99_ms'])} ms; "
        f"{baseline['label']} has {number(baseline['p50_ms'])} ms and "
        f"{number(baseline['p99_ms'])} ms: {p50} and {p99} less."
    )


def _epoch_words(document: Document) -> str:
    valid = sorted((p for p in document["points"] if p["valid"]), key=lambda p: p["value_ms"])
    if len(valid) < 2:  # noqa: PLR2004
        return ""
    short, long = valid[0], valid[-1]
    labels = {"p50_ms": "ms at p50", "p99_ms": "ms at p99", "recovery_ms": "ms to recover"}
    parts = [
        f"{number(short[name])} against {number(long[name])} {words}"
        for name, words in {**labels, "repeated": "rows replayed"}.items()
        if None not in (short.get(name), long.get(name))
    ]
    return f"Epochs of {short['label']} against epochs of {long['label']}: {', '.join(parts)}."


def _operator_words(document: Document) -> str:
    baseline = document["baseline"]
    compared = [point for point in document["points"] if "p50_ratio" in point]
    if not compared:
        return ""
    most = {name: max(compared, key=lambda point: point[name]) for name in COMPARED_WITH_COUNT}
    slowest = " and ".join(
        f"{most[name]['label']} with {most[name][name]:.2f} times {head}"
        for name, head in COMPARED_WITH_COUNT.items()
    )
    return (
        f"A plain count and sum has a p50 of {number(baseline['p50_ms'])} ms and a p99 of "
        f"{number(baseline['p99_ms'])} ms in this run. The slowest operators: {slowest}."
    )


def _boundary_words(document: Document) -> str:
    return " ".join(
        f"On {point['workload']} with epochs of {point['label']}, the median gap at "
        f"{point['boundaries']} boundaries is {number(point['gap_ms'])} ms: "
        f"{point['gap_ratio']:.2f} times Flink's in this run."
        for point in document["points"]
        if "gap_ratio" in point
    )


SWEEPS: dict[str, tuple[Callable[[Document], str], Callable[[Document], Iterable[str]]]] = {
    "trigger": (_trigger_words, _trigger_plots),
    "epoch": (_epoch_words, _epoch_plots),
    "operators": (_operator_words, lambda _: ()),
    "boundary": (_boundary_words, lambda _: ()),
}
"""The texts and plots by kind."""
