"""The figure of a soak: one panel for each kind of resource, one line for each pipeline."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from .verdict import sorted_series

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .verdict import Line

PANELS = (
    ("Live heap after GC, MB", "jvm.live_heap_mb"),
    ("JVM memory outside the heap, MB", "jvm.native_mb"),
    ("Metaspace, MB", "jvm.metaspace_mb"),
    ("Python workers, RSS in MB", "workers.rss_mb"),
    ("Supervisor, RSS in MB", "supervisor.rss_mb"),
    ("JVM threads", "jvm.threads"),
    ("JVM file descriptors", "jvm.fds"),
    ("Checkpoint, MB", "checkpoint.mb"),
    ("Checkpoint, files", "checkpoint.files"),
    ("Temporary files, MB", "temporary.mb"),
    ("Median latency, ms", "latency.p50_ms"),
    ("p99 latency, ms", "latency.p99_ms"),
)
COLOURS = ("#2f66ee", "#bd7100", "#0b4a27", "#cb5f54", "#5a1d9c", "#0a88ad")
COLUMNS, WIDTH, HEIGHT = 3, 4.2, 2.5


def draw(lines: Iterable[Line], folder: Path) -> list[Path]:
    """Draw the samples; return the files, or nothing if matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    lines = list(lines)
    series = sorted_series(line for line in lines if line["kind"] == "sample")
    names = sorted({pipeline for pipeline, _ in series if pipeline})
    faults = [line["hours"] for line in lines if line["kind"] == "fault"]
    rows = -(-len(PANELS) // COLUMNS)
    figure = Figure(figsize=(COLUMNS * WIDTH, rows * HEIGHT), layout="constrained")
    panels = figure.subplots(rows, COLUMNS, sharex=True).flat
    for axes, (title, resource) in zip(panels, PANELS, strict=True):
        _panel(axes, title, faults)
        for name, colour in zip(names, COLOURS, strict=False):
            _lives(axes, series.get((name, resource), []), colour, name)
        axes.set_ylim(bottom=0)
    handles, labels = _legend(figure)
    figure.legend(handles, labels, loc="outside upper center", ncols=len(COLOURS), frameon=False)
    figure.supxlabel("hours (grey lines: faults)", fontsize=9, color="#5f6770")
    files = [folder / "soak.svg", folder / "soak.png"]
    for file in files:
        figure.savefig(file, dpi=110, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files


def _panel(axes: Any, title: str, faults: list[float]) -> None:  # noqa: ANN401  (not typed here)
    axes.set_title(title, loc="left", fontsize=9.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, length=0)
    axes.grid(axis="y", color="#e4e7eb", lw=0.8)
    for hours in faults:
        axes.axvline(hours, color="#d9dde2", lw=0.8, zorder=0)


def _lives(axes: Any, points: list[Any], colour: str, name: str) -> None:  # noqa: ANN401
    """Draw each life as its own line: a new process begins at another level."""
    for number, (_, life) in enumerate(groupby(points, key=lambda point: point.life)):
        part = list(life)
        axes.plot(
            [point.hours for point in part],
            [point.value for point in part],
            color=colour,
            lw=1.4,
            marker="." if len(part) == 1 else None,
            label=name if number == 0 else None,
        )


def _legend(figure: Any) -> tuple[list[Any], list[str]]:  # noqa: ANN401
    """Return one entry for each pipeline, from the first panel that has it."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    return list(entries.values()), list(entries)
