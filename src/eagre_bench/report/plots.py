"""The plots of the report as SVG; sizes are in pixels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from eagre.latency.histogram import CURVE
from eagre_bench.publish import number
from eagre_bench.report import canvas
from eagre_bench.report.canvas import LineLabel, paint, role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eagre_bench.report.canvas import Axes

Figures = dict[str, Any]

NINES = [round(-math.log10(1 - percentile / 100), 2) for percentile in CURVE]
NINES_SHOWN = {0.3: "50 %", 1.0: "90 %", 2.0: "99 %", 3.0: "99.9 %", 4.0: "99.99 %"}
SHOWN = slice(NINES.index(0.3), NINES.index(4.0) + 1)
SWEPT: dict[str, tuple[str, dict[str, Any]]] = {
    "p50_ms": ("p50", {"lw": 1.2}),
    "p99_ms": ("p99", {"lw": 2.4}),
    "p999_ms": ("p99.9", {"lw": 1.4, "ls": (0, (5, 2))}),
    "max_ms": ("max", {"lw": 1.4, "ls": (0, (1.2, 1.8))}),
}
LINKS = ("producer", "topic", "engine", "sink", "reader")
MARKS_PER_SECOND = 2
"""A system that commits more often than this is drawn without its commits."""

_LEAST_MS = 0.001
_HARDLY = 1.1


@canvas.styled
def percentiles(results: dict[str, Figures]) -> str:
    """Draw latency over the number of nines; thin lines are single rounds."""
    axes = canvas.axes_of(470, 350, left=52, right=130, top=12, bottom=44)
    marked = [NINES[SHOWN].index(nines) for nines in NINES_SHOWN]
    ends = []
    for name, figures in results.items():
        for trial in sound(figures):
            axes.plot(NINES[SHOWN], _curve(trial), color=paint(name), lw=0.7, alpha=0.5)
        values = _curve(figures)
        axes.plot(NINES[SHOWN], values, markevery=marked, clip_on=False, **canvas.line(name))
        ends.append(LineLabel(name, values[-1], paint(name)))
    axes.set_xlim(NINES[SHOWN.start], NINES[SHOWN.stop - 1])
    axes.set_xticks(list(NINES_SHOWN), list(NINES_SHOWN.values()))
    canvas.label_axis(axes.xaxis, "of the results came within")
    canvas.logarithmic(axes)
    canvas.name_ends(axes, ends)
    return canvas.svg(axes, "Percentile curves of " + ", ".join(results))


@canvas.styled
def seconds(name: str, trial: Figures, among: dict[str, Figures], kill: float | None) -> str:
    """Draw a trial second by second: p99, p50 (thin), the floor's p99, and checkpoints.

    Args:
        name: The name of the system.
        trial: Its trial.
        among: The trials of all systems, which share the scale.
        kill: When the system was killed, in seconds, if it was.
    """
    axes = canvas.axes_of(264, 172, left=46, right=12, top=24, bottom=24)
    canvas.title(axes, name)
    if name != "floor" and "floor" in among:
        _series(axes, among["floor"], "p99_ms", color=role("floor"), lw=1, ls=(0, (4, 3)))
    _series(axes, trial, "p50_ms", color=paint(name), lw=0.9)
    _series(axes, trial, "p99_ms", color=paint(name), lw=2)
    length = _length(trial)
    for at in _checkpoints(trial, length):
        axes.axvline(at, 0, 0.1, color=paint(name), lw=1.6)
    if kill is not None:
        axes.axvline(kill, color=role("muted"), lw=0.9, ls=":")
    axes.set_xlim(0, length)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    axes.locator_params(axis="x", nbins=4)
    axes.set_ylim(*_limits(among.values()))
    canvas.logarithmic(axes)
    return canvas.svg(axes, f"p50 and p99 of {name} in each second")


@canvas.styled
def ratio_bars(ratios: dict[str, dict[str, Figures]], against: str) -> str:
    """Draw how many times faster or slower each system is than one of them, at p50 and p99."""
    rows = {name: compared[against] for name, compared in ratios.items() if against in compared}
    axes = canvas.axes_of(372, 64 + 31 * len(rows), left=130, right=8, top=38, bottom=26)
    shown = [compared[m]["ratio"] for compared in rows.values() for m in ("p50_ms", "p99_ms")]
    low, high = min([0.5, *filter(None, shown)]), max([2.0, *shown])
    room = (high / low) ** 0.3
    axes.set_xscale("log")
    axes.set_xlim(low / room, high * room)
    for row, (name, compared) in enumerate(rows.items()):
        _ratio_bar(axes, name, compared["p50_ms"], row - 0.19, 1.0)
        _ratio_bar(axes, name, compared["p99_ms"], row + 0.19, 0.55)
    axes.axvline(1, color=role("muted"), lw=1)
    canvas.rows(axes, list(rows))
    axes.grid(axis="x", color=role("grid"), lw=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{max(value, 1 / value):,.0f}x")
    canvas.few_ticks(axes.xaxis)
    canvas.title(axes, f"against {against}", pad=22)
    _sides(axes)
    return canvas.svg(axes, f"Each system's latency against {against}")


@canvas.styled
def link_bars(results: dict[str, Figures]) -> str:
    """Draw the share of each part in the mean latency, with the mean beside it."""
    rows = {name: figures["links"] for name, figures in results.items() if figures.get("links")}
    axes = canvas.axes_of(470, 62 + 32 * len(rows), left=124, right=66, top=36, bottom=26)
    for row, (name, links) in enumerate(rows.items()):
        _link_bar(axes, name, links, row)
    axes.set_xlim(0, 100)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    canvas.rows(axes, list(rows))
    _link_legend(axes)
    return canvas.svg(axes, "Shares of the links in the mean latency")


@canvas.styled
def trigger_sweep(points: list[Figures], baseline: Figures | None) -> str:
    """Draw latency over the trigger interval, with real time below."""
    axes = canvas.axes_of(500, 350, left=50, right=124, top=14, bottom=44)
    ordered = sorted(points, key=lambda point: -point["value_ms"])
    places = [float(place) for place in range(len(ordered))]
    _half(axes, [point["value_ms"] / 2 for point in ordered if point["value_ms"]])
    named = ("p50_ms", "p99_ms")
    ends = _swept(axes, ordered, places, named, "micro-batch ")
    if baseline and baseline.get("valid"):
        ends += _baseline(axes, baseline, named)
        _gap(axes, ordered, baseline["p50_ms"])
    axes.set_xlim(-0.15, places[-1])
    axes.set_xticks(places, [point["label"] for point in ordered])
    canvas.label_axis(axes.xaxis, "trigger interval of the micro-batches")
    canvas.logarithmic(axes)
    canvas.name_ends(axes, ends)
    return canvas.svg(axes, "Latency over the trigger interval")


@canvas.styled
def epoch_sweep(points: list[Figures], names: tuple[str, ...], title: str) -> str:
    """Draw figures over the length of the epoch: several on a log scale, a single one from zero."""
    many = len(names) > 1
    axes = canvas.axes_of(364, 250, left=56, right=52 if many else 18, top=28, bottom=44)
    ordered = sorted(points, key=lambda point: point["value_ms"])
    places = [float(point["value_ms"]) for point in ordered]
    ends = _swept(axes, ordered, places, names, "")
    canvas.title(axes, title)
    axes.set_xscale("log")
    axes.set_xlim(places[0] * 0.85, places[-1])
    axes.set_xticks(places, [point["label"] for point in ordered])
    axes.minorticks_off()
    canvas.label_axis(axes.xaxis, "length of an epoch")
    if many:
        canvas.logarithmic(axes)
        canvas.name_ends(axes, ends)
    else:
        canvas.from_zero(axes, canvas.duration if names[0].endswith("_ms") else "{:,.0f}".format)
    return canvas.svg(axes, f"{title} over the length of an epoch")


def factor(ratio: float) -> str:
    """Format a ratio or its inverse, whichever is above one.

    >>> factor(418.2), factor(0.25), factor(1.04)
    ('418x', '4.0x', '1.04x')
    """
    times = max(ratio, 1 / ratio)
    return f"{times:.2f}x" if times < _HARDLY else f"{number(times)}x"


def sound(figures: Figures) -> list[Figures]:
    """Return the valid trials."""
    return [trial for trial in figures.get("trials", []) if not trial["problems"]]


def _curve(figures: Figures) -> list[float]:
    return [max(ms, _LEAST_MS) for ms in figures["curve"][SHOWN]]


def _series(axes: Axes, trial: Figures, metric: str, **look: Any) -> None:  # noqa: ANN401
    middles = [second["second"] + 0.5 for second in trial["series"]]
    axes.plot(middles, [max(second[metric], _LEAST_MS) for second in trial["series"]], **look)


def _length(trial: Figures) -> float:
    return float(max(second["second"] for second in trial["series"]) + 1)


def _limits(trials: Iterable[Figures]) -> tuple[float, float]:
    values = [s[metric] for t in trials for s in t["series"] for metric in ("p50_ms", "p99_ms")]
    return max(min(values), _LEAST_MS) * 0.4, max(values) * 1.5


def _checkpoints(trial: Figures, length: float) -> list[float]:
    """Return the commits within the measured time, unless there are too many to draw."""
    within = [at for at in trial.get("checkpoints") or [] if 0 <= at <= length]
    return within if len(within) <= MARKS_PER_SECOND * length else []


def _ratio_bar(axes: Axes, name: str, compared: Figures, place: float, opacity: float) -> None:
    """Draw a bar from one to the ratio; grey if it is within noise."""
    ratio, differs = compared["ratio"], compared["differs"]
    if not ratio:
        return
    colour = paint(name) if differs else role("same")
    axes.barh(place, ratio - 1, 0.36, left=1, color=colour, alpha=opacity, lw=0)
    side = math.copysign(1, ratio - 1 if differs else _roomier(axes))
    axes.annotate(
        factor(ratio) if differs else "no difference",
        (ratio if (ratio > 1) == (side > 0) else 1, place),
        (4 * side, 0),
        textcoords="offset points",
        ha="left" if side > 0 else "right",
        va="center",
        fontsize=10,
        color=role("ink" if differs else "muted"),
    )


def _roomier(axes: Axes) -> float:
    """Return which side of one has more room; above zero is the right one."""
    low, high = axes.get_xlim()
    return math.log(low * high)


def _sides(axes: Axes) -> None:
    """Label at the top which direction is better."""
    for side, text in ((-1, "← slower"), (1, "faster →")):
        axes.annotate(
            text,
            (1, 1),
            (7 * side, 5),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            fontsize=11,
            color=role("muted"),
        )


def _link_bar(axes: Axes, name: str, links: Figures, row: int) -> None:
    total = sum(max(links[link], 0) for link in LINKS) or 1
    left = 0.0
    for link in LINKS:
        share = 100 * max(links[link], 0) / total
        colour = paint(name) if link == "engine" else role(link)
        axes.barh(row, share, 0.62, left=left, color=colour, edgecolor=role("surface"), lw=1)
        left += share
    axes.text(102, row, f"{number(total)} ms", va="center", color=role("ink"))


def _link_legend(axes: Axes) -> None:
    """Label the parts above the bars, in order."""
    from matplotlib.patches import Patch

    patches = [Patch(color=role("ink" if k == "engine" else k), label=k) for k in LINKS]
    axes.legend(
        handles=patches,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=len(LINKS),
        frameon=False,
        fontsize=11,
        labelcolor=role("muted"),
        handlelength=1,
        handleheight=1,
        handletextpad=0.4,
        columnspacing=1.1,
    )


def _swept(
    axes: Axes, points: list[Figures], places: list[float], names: tuple[str, ...], prefix: str
) -> list[LineLabel]:
    """Draw figures over the points; invalid ones are crosses beside the line."""
    ends = []
    for name in names:
        label, look = SWEPT.get(name, (name, {"lw": 2}))
        drawn = [(at, p) for at, p in zip(places, points, strict=True) if p.get(name) is not None]
        for at, point in drawn:
            _point(axes, at, point, name)
        good = [(at, point[name]) for at, point in drawn if point["valid"]]
        if good:
            colour = paint(points[0]["system"])
            axes.plot(*zip(*good, strict=True), color=colour, clip_on=False, **look)
            ends.append(LineLabel(prefix + label, good[-1][1], colour))
    return ends


def _point(axes: Axes, at: float, point: Figures, name: str) -> None:
    """Draw one figure with its spread over the rounds."""
    if not point["valid"]:
        axes.plot([at], [point[name]], "x", color=role("bad"), ms=7, mew=2, clip_on=False)
        return
    colour = paint(point["system"])
    axes.plot([at], [point[name]], "o", color=colour, ms=5, mew=0, clip_on=False)
    spread = (point.get("spread") or {}).get(name)
    if spread:
        axes.vlines(at, *spread, color=colour, lw=5, alpha=0.3, clip_on=False)


def _half(axes: Axes, halves: list[float]) -> None:
    """Draw the average wait for the next batch alone."""
    axes.plot(range(len(halves)), halves, color=role("muted"), lw=1.1, ls=":")
    if halves:
        place = max(len(halves) - 2, 0)
        _beside(axes, "half the interval", (place, halves[place]), (-8, -9), role("muted"))


def _gap(axes: Axes, points: list[Figures], below: float) -> None:
    """Draw the distance between the best point and a line."""
    good = [(point["p50_ms"], at) for at, point in enumerate(points) if point["valid"]]
    if not good:
        return
    best, at = min(good)
    arrow = {"arrowstyle": "<->", "color": role("muted"), "shrinkA": 4, "shrinkB": 2}
    axes.annotate("", (at, below), (at, best), arrowprops=arrow)
    _beside(axes, factor(best / below), (at, math.sqrt(best * below)), (-7, 0), role("ink"))


def _beside(
    axes: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], colour: str
) -> None:
    axes.annotate(
        text,
        point,
        offset,
        textcoords="offset points",
        ha="right",
        va="center",
        color=colour,
        bbox={"facecolor": role("surface"), "edgecolor": "none", "pad": 1.5},
    )


def _baseline(axes: Axes, figures: Figures, names: tuple[str, ...]) -> list[LineLabel]:
    """Draw horizontal lines for systems that are not swept."""
    colour, ends = paint(figures["system"]), []
    for name in names:
        label, look = SWEPT[name]
        axes.axhline(figures[name], color=colour, **look)
        ends.append(LineLabel(f"{figures['label']} {label}", figures[name], colour))
    return ends
