"""Drawing for the report: axes in pixels, colours and scales, SVG for HTML.

Everything is drawn in placeholder colours, one per role, which become CSS variables: one drawing
serves the light and dark themes.
"""

from __future__ import annotations

import io
import math
import re
from functools import wraps
from html import escape
from statistics import mean
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable

Axes = Any
P = ParamSpec("P")

COLOURS = {
    "ink": ("#1f2328", "#e6e8eb"),
    "muted": ("#5f6770", "#a0a8b2"),
    "grid": ("#e4e7eb", "#2c323a"),
    "surface": ("#ffffff", "#15181d"),
    "same": ("#b6bcc4", "#59626d"),
    "bad": ("#b3261e", "#ff8f85"),
    "producer": ("#d9dde2", "#343b44"),
    "topic": ("#aab2bc", "#5a6470"),
    "sink": ("#87919c", "#7a8592"),
    "reader": ("#c5cbd2", "#464f5a"),
    "floor": ("#5f6770", "#a0a8b2"),
    "eagre": ("#2f66ee", "#86a6ff"),
    "spark-rtm-defaults": ("#0a88ad", "#b4ebee"),
    "spark-micro-batch": ("#cb5f54", "#d2604f"),
    "flink": ("#bd7100", "#ffd033"),
    "kafka-streams": ("#0b4a27", "#74f58e"),
    "pyflink": ("#5a1d9c", "#8a60ff"),
    "quix": ("#83296a", "#cd659c"),
    "bytewax": ("#505a08", "#a39b12"),
}
"""Colours by role, light and dark; systems are distinguishable with colour blindness."""

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "eagre",
    "text.parse_math": False,
    "path.simplify": False,
    "font.size": 12,
}
MARKERS = {
    "eagre": "o",
    "spark-rtm-defaults": "s",
    "spark-micro-batch": "D",
    "flink": "^",
    "kafka-streams": "v",
    "pyflink": "P",
    "quix": "X",
    "bytewax": "p",
}

TICKS = {1.3: (1, 2, 5), 2.4: (1, 3), math.inf: (1,)}
"""Which steps of a decade are labelled, by how many decades there are."""

_PIXELS = 72
_SECOND_MS = 1000
_LABEL_GAP = 14.5


class LineLabel(NamedTuple):
    """A label at the end of a line."""

    label: str
    value: float
    colour: str


def styled(draw: Callable[P, str]) -> Callable[P, str]:
    """Draw with our settings, and restore those of matplotlib."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> str:
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def apart(wanted: list[float], gap: float) -> list[float]:
    """Move ascending positions as little as possible until they are a gap apart.

    >>> apart([0, 1, 2, 50], 10)
    [-9, 1, 11, 50]
    """
    blocks: list[list[float]] = []
    for place, at in enumerate(wanted):
        blocks.append([at - place * gap])
        while len(blocks) > 1 and mean(blocks[-2]) > mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    levels = [mean(block) for block in blocks for _ in block]
    return [level + place * gap for place, level in enumerate(levels)]


def role(name: str) -> str:
    """Return the placeholder colour of a role."""
    return f"#fe00{list(COLOURS).index(name):02x}"


def paint(system: str) -> str:
    """Return the placeholder colour of a system; ink for unknown ones."""
    return role(system if system in (*MARKERS, "floor") else "ink")


def line(system: str) -> dict[str, Any]:
    """Return the line style of a system."""
    look = {"color": paint(system), "lw": 2.8 if system == "eagre" else 1.7}
    if system == "floor":
        return {**look, "ls": (0, (5, 3))}
    return {**look, "marker": MARKERS.get(system, "*"), "ms": 6, "mew": 0}


def axes_of(width: int, height: int, *, left: int, right: int, top: int, bottom: int) -> Axes:
    """Create axes with margins."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / _PIXELS, height / _PIXELS), dpi=_PIXELS)
    inner = ((width - left - right) / width, (height - top - bottom) / height)
    axes = figure.add_axes((left / width, bottom / height, *inner))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(role("same"))
    axes.tick_params(length=0, pad=5, labelsize=11, labelcolor=role("muted"))
    axes.set_axisbelow(True)
    return axes


def title(axes: Axes, text: str, pad: float = 9) -> None:
    """Draw a title above the left edge."""
    axes.set_title(text, loc="left", fontsize=12.5, color=role("ink"), pad=pad)


def label_axis(axis: Any, text: str) -> None:  # noqa: ANN401  (matplotlib is not typed here)
    """Label an axis."""
    axis.set_label_text(text, color=role("muted"), fontsize=11)


def logarithmic(axes: Axes) -> None:
    """Set a log scale of milliseconds on the left axis."""
    axes.set_yscale("log")
    axes.grid(axis="y", color=role("grid"), lw=0.8)
    axes.yaxis.set_major_formatter(lambda ms, _: duration(ms))
    few_ticks(axes.yaxis)


def from_zero(axes: Axes, write: Callable[[float], str]) -> None:
    """Set a scale that begins at zero on the left axis."""
    from matplotlib.ticker import MaxNLocator

    axes.set_ylim(0, (axes.dataLim.ymax or 1) * 1.12)
    axes.grid(axis="y", color=role("grid"), lw=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], integer=True))
    axes.yaxis.set_major_formatter(lambda value, _: write(value))


def duration(ms: float) -> str:
    """Format the time of a tick.

    >>> duration(0.5), duration(200), duration(5000)
    ('0.5 ms', '200 ms', '5 s')
    """
    return f"{ms / 1000:,.6g} s" if ms >= _SECOND_MS else f"{ms:.6g} ms"


def few_ticks(axis: Any) -> None:  # noqa: ANN401
    """Label decades, and some steps of each if there are few."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    steps = next(steps for most, steps in TICKS.items() if decades < most)
    axis.set_major_locator(LogLocator(subs=steps, numticks=8))
    axis.set_minor_locator(NullLocator())


def rows(axes: Axes, names: list[str]) -> None:
    """Label rows of bars, the first at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelcolor=role("ink"), labelsize=12)
    axes.set_ylim(len(names) - 0.5, -0.5)


def name_ends(axes: Axes, ends: list[LineLabel]) -> None:
    """Label each line at its end, without overlaps."""
    rising = sorted(ends, key=lambda end: end.value)
    to_axes = axes.transAxes.inverted().transform
    wanted = [axes.transData.transform((axes.get_xlim()[1], end.value))[1] for end in rising]
    heights = [to_axes((0, at))[1] for at in wanted]
    placed = [to_axes((0, at))[1] for at in apart(wanted, _LABEL_GAP)]
    beyond = {"transform": axes.transAxes, "clip_on": False}
    for end, begin, height in zip(rising, heights, placed, strict=True):
        path = ([1.01, 1.045, 1.06], [begin, height, height])
        axes.plot(*path, color=end.colour, lw=1.3, **beyond)
        axes.text(1.07, height, end.label, va="center", color=role("ink"), **beyond)


def svg(axes: Axes, label: str) -> str:
    """Return the SVG for a page: no prolog, no ids, with the colours and font of the page."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    axes.figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    size = re.search(r'viewBox="[^"]*"', text)
    body = text[text.index("</style>") :].partition("</defs>")[2]
    body = re.sub(r'<g id="[^"]*"', "<g", body).replace("xlink:href", "href")
    body = re.sub(r"font-family: [^;\"]*", "font-family: inherit", body)
    body = re.sub(r"\s*\n", " ", body)
    for name in COLOURS:
        body = body.replace(role(name), f"var(--{name})")
    return f'<svg {size and size[0]} role="img" aria-label="{escape(label, quote=True)}">{body}'
