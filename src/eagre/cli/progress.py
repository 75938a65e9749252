"""A trial as it passes: a line that moves in a terminal, else one in five seconds."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from eagre.bench.publish import number
from eagre.cli.console import say

if TYPE_CHECKING:
    from eagre.bench.campaign import Turn

PLAIN_EVERY_SECONDS = 5

Figures = dict[str, Any]


class Progress:
    """Shows the seconds of one trial after the other."""

    def __init__(self) -> None:
        self._name = ""
        self._warmup = self._seconds = 0.0
        self._passed = 0
        self._moving = sys.stderr.isatty()
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Tell something on a line of its own."""
        self._clear()
        say(text)

    def begin(self, turn: Turn, number: int, of: int) -> None:
        """Announce a trial of a run."""
        if number == 1:
            self._began = time.monotonic()
        self.say(f"{number} of {of}: {turn.name}{self._left(number, of)}")
        self.start(turn.system.name, turn.workload.warmup, turn.workload.seconds)

    def _left(self, number: int, of: int) -> str:
        """Judge the time to come by the trials that are over."""
        if number == 1:
            return ""
        each = (time.monotonic() - self._began) / (number - 1)
        return f", about {each * (of - number + 1) / 60:.0f} min left"

    def start(self, name: str, warmup: float, seconds: float) -> None:
        """Begin a trial."""
        self._name, self._warmup, self._seconds = name, warmup, warmup + seconds
        self._passed = 0

    def second(self, figures: Figures) -> None:
        """Show one second."""
        self._passed += 1
        stage = "warm-up" if self._passed <= self._warmup else "measuring"
        text = (
            f"{self._name}: {stage} {min(self._passed, self._seconds):.0f} of {self._seconds:.0f} s"
            f"   {figures['records']:,} results{_latency(figures)}"
        )
        if self._moving:
            click.echo(f"\r\x1b[2Keagre: {text}", nl=False, err=True)
        elif self._passed % PLAIN_EVERY_SECONDS == 0:
            say(text)

    def end(self, figures: Figures) -> None:
        """Give a trial's figures."""
        for problem in figures["problems"]:
            self.say(f"{self._name}: {problem}")
        if "p50_ms" in figures:
            told = (f"p{p} {number(figures[f'p{p}_ms'])}" for p in ("50", "95", "99"))
            self.say(f"{self._name}: {', '.join(told)}, max {number(figures['max_ms'])} ms")

    def close(self) -> None:
        """Leave the line."""
        self._clear()

    def _clear(self) -> None:
        if self._moving:
            click.echo("\r\x1b[2K", nl=False, err=True)


def _latency(figures: Figures) -> str:
    if "p50_ms" not in figures:
        return ""
    return f"   p50 {figures['p50_ms']:,.1f} ms   p99 {figures['p99_ms']:,.1f} ms"
