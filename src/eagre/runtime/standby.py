"""A spare Spark process of a pipeline: it has started ahead, and takes over after a failure."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagre.runtime.spark_child import Event, SparkChild

SETTLE_SECONDS = 10.0
"""A pipeline runs for so long before its standby starts: both would compete for the processor."""
AGAIN_SECONDS = 60.0
ATTEMPTS = 3


@dataclass
class Standby:
    """The spare process, if there is one.

    It has loaded the app, started Spark and planned the pipeline, and has not touched the
    checkpoint. A pipeline has none until it has run for a while, nor after three in a row have
    failed.

    Attributes:
        wanted: Whether the pipeline may have one at all.
        child: The process.
        ready: Whether it only waits to take over.
    """

    wanted: bool = False
    child: SparkChild | None = None
    ready: bool = False
    _due: float | None = None
    _failed: int = 0
    _reason: str = ""

    def plan(self) -> None:
        """Plan one, unless there is one: the query has started."""
        if self.wanted and self.child is None and self._failed < ATTEMPTS:
            self._due = time.monotonic() + SETTLE_SECONDS

    def is_due(self) -> bool:
        """Return once whether the process is to be started now."""
        due = self._due is not None and time.monotonic() >= self._due
        if due:
            self._due = None
        return due

    def hear(self, event: Event) -> str:
        """Handle an event of the process; return what the user should know."""
        if event["event"] == "prepared":
            self.ready, self._failed = True, 0
            return "a standby is ready to take over"
        if event["event"] == "failed":
            self._reason = f": {event['code']}: {event['problem']}"
        elif event["event"] == "gone":
            return self._lost()
        return ""

    def _lost(self) -> str:
        """Forget a process that has exited, and plan another."""
        text = f"the standby exited unexpectedly{self._reason or f'; see {self._log()}.'}"
        self.end()
        self._failed += 1
        if self._failed >= ATTEMPTS:
            return f"{text} The run continues without a standby."
        self._due = time.monotonic() + AGAIN_SECONDS
        return text

    def _log(self) -> str:
        return str(self.child.log) if self.child else "its log"

    def take(self) -> SparkChild | None:
        """Return the process to take over; the caller owns it."""
        child, self.child, self.ready, self._due = self.child, None, False, None
        return child

    def end(self) -> None:
        """Kill the process, and plan none."""
        child = self.take()
        self._reason = ""
        if child:
            child.kill()
            child.wait()
