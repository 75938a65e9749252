"""The progress of a trial: a line that is rewritten on a terminal, or a line every 5 s."""

from __future__ import annotations

import math
from typing import Any

import click

from eagre.cli.console import live, rewrite_line, say

PLAIN_EVERY_SECONDS = 5
BARS = "▁▂▃▄▅▆▇█"
SLOWEST_MS = 1_000.0
SPARK_SECONDS = 30

Figures = dict[str, Any]


class Progress:
    """Shows the progress of several trials, second by second."""

    def __init__(self) -> None:
        self.name = ""
        self._warmup = self._seconds = 0.0
        self._elapsed = self._measured = self._answered = 0
        self._medians: list[float] = []
        self._live = live()
        self._line = False

    def say(self, text: str) -> None:
        """Print a message on a separate line."""
        self._clear()
        say(text)

    def start(self, name: str, warmup: float, seconds: float) -> None:
        """Start a trial; the last line of the previous trial stays."""
        self.close()
        self.name, self._warmup, self._seconds = name, warmup, seconds
        self._elapsed = self._measured = self._answered = 0
        self._medians = []

    def second(self, figures: Figures) -> None:
        """Show the figures of a second."""
        self._elapsed += 1
        if "p50_ms" in figures:
            self._answered += 1
            self._medians.append(figures["p50_ms"])
        warming = figures.get("warming", self._elapsed <= self._warmup)
        self._measured += not warming
        text = f"{self.name:<11}  {self._stage(warming=warming)}   {_latency(figures)}"
        if self._live:
            rewrite_line(f"eagre: {text}   {self._sparkline()}")
            self._line = True
        elif self._answered == 1 or self._elapsed % PLAIN_EVERY_SECONDS == 0:
            say(f"{text}   {self._sparkline()}")

    def close(self) -> None:
        """Leave the current line and continue on the next."""
        if self._line:
            click.echo(err=True)
        self._line = False

    def _stage(self, *, warming: bool) -> str:
        if warming:
            return f"warm-up   {self._elapsed:>2} s      "
        return f"measuring {min(self._measured, self._seconds):>2.0f} of {self._seconds:g} s"

    def _sparkline(self) -> str:
        return "".join(bar(p50) for p50 in self._medians[-SPARK_SECONDS:])

    def _clear(self) -> None:
        if self._line:
            rewrite_line()
        self._line = False


def bar(latency_ms: float) -> str:
    """Return a bar for a latency, on a scale for both modes: each level is 2.4 times the last.

    >>> "".join(bar(ms) for ms in (0.5, 2, 10, 100, 450, 5000))
    '▁▁▃▆██'
    """
    level = math.log10(max(latency_ms, 1.0)) / math.log10(SLOWEST_MS)
    return BARS[min(len(BARS) - 1, int(level * len(BARS)))]


def _latency(figures: Figures) -> str:
    if "p50_ms" not in figures:
        return "no result yet"
    return (
        f"{figures['records']:>6,} results/s   "
        f"p50 {figures['p50_ms']:>7,.1f} ms   p99 {figures['p99_ms']:>7,.1f} ms"
    )
