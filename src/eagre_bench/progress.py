"""The progress of a run of the benchmark: its trials, their figures, and the time left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from eagre.cli.progress import Figures, Progress
from eagre_bench.publish import number

if TYPE_CHECKING:
    from eagre_bench.campaign import ScheduledTrial


class RunProgress(Progress):
    """Prints the trials, each with its figures at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()

    def begin(self, turn: ScheduledTrial, number: int, of: int) -> None:
        """Print the start of a trial."""
        if number == 1:
            self._began = time.monotonic()
        self.say(f"{number} of {of}: {turn.name}{self._left(number, of)}")
        self.start(turn.system.name, turn.workload.warmup, turn.workload.seconds)

    def end(self, figures: Figures) -> None:
        """Print the figures of a trial."""
        for problem in figures["problems"]:
            self.say(f"{self.name}: {problem}")
        if "p50_ms" in figures:
            percentiles = (f"p{p} {number(figures[f'p{p}_ms'])}" for p in ("50", "95", "99"))
            self.say(f"{self.name}: {', '.join(percentiles)}, max {number(figures['max_ms'])} ms")

    def _left(self, number: int, of: int) -> str:
        """Estimate the remaining time from the finished trials."""
        if number == 1:
            return ""
        each = (time.monotonic() - self._began) / (number - 1)
        return f", about {each * (of - number + 1) / 60:.0f} min left"
