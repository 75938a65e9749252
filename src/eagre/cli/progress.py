"""The progress of a trial: one line that is rewritten in a terminal, else one in five seconds."""

from __future__ import annotations

import sys
from typing import Any

import click

from eagre.cli.console import say

PLAIN_EVERY_SECONDS = 5

Figures = dict[str, Any]


class Progress:
    """Shows the seconds of one trial after the other."""

    def __init__(self) -> None:
        self.name = ""
        self._warmup = self._seconds = 0.0
        self._passed = 0
        self._moving = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Tell something on a line of its own."""
        self._clear()
        say(text)

    def start(self, name: str, warmup: float, seconds: float) -> None:
        """Begin a trial."""
        self.name, self._warmup, self._seconds = name, warmup, warmup + seconds
        self._passed = 0

    def second(self, figures: Figures) -> None:
        """Show one second."""
        self._passed += 1
        stage = "warm-up" if self._passed <= self._warmup else "measuring"
        text = (
            f"{self.name}: {stage} {min(self._passed, self._seconds):.0f} of {self._seconds:.0f} s"
            f"   {figures['records']:,} results{_latency(figures)}"
        )
        if self._moving:
            click.echo(f"\r\x1b[2Keagre: {text}", nl=False, err=True)
        elif self._passed % PLAIN_EVERY_SECONDS == 0:
            say(text)

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
