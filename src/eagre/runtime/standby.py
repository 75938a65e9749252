"""A spare Spark process of a pipeline: it has started ahead, and takes over after a failure."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagre.runtime.spark_child import END_SECONDS

if TYPE_CHECKING:
    from eagre.runtime.spark_child import Event, SparkChild

SETTLE_SECONDS = 10.0
"""A pipeline runs for so long before its standby starts: both would compete for the processor."""
AGAIN_SECONDS = 60.0
ATTEMPTS = 3
STEADY_SECONDS = 600.0
"""A standby that was ready for so long has not failed because of the app: attempts start again."""


@dataclass
class Standby:
    """The spare process, if there is one.

    It has loaded the app, started Spark and planned the pipeline, and has not touched the
    checkpoint. A pipeline has none until it has run for a while, nor after three in a row have
    failed.

    Attributes:
        wanted: Whether the pipeline may have one at all.
        child: The process.
    """

    wanted: bool = False
    child: SparkChild | None = None
    _ready_since: float | None = None
    _due: float | None = None
    _failed: int = 0
    _reason: str = ""
    _ending: list[threading.Thread] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether it only waits to take over."""
        return self._ready_since is not None

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
            self._ready_since = time.monotonic()
            return "a standby is ready to take over"
        if event["event"] == "failed":
            self._reason = f": {event['code']}: {event['problem']}"
            if self.child:
                self.child.kill()  # a thread of the app may keep it from exiting
        elif event["event"] == "gone" and self.child:
            return self.lost(self._reason or f"; see {self.child.log}.")
        return ""

    def lost(self, reason: str) -> str:
        """Forget a process that has exited or could not be started, and plan another."""
        now = time.monotonic()
        if self._ready_since is not None and now - self._ready_since > STEADY_SECONDS:
            self._failed = 0
        self._failed += 1
        self.end()
        text = f"the standby exited unexpectedly{reason}"
        if self._failed >= ATTEMPTS:
            return f"{text} The run continues without a standby."
        self._due = now + AGAIN_SECONDS
        return text

    def take(self) -> SparkChild | None:
        """Return the process to take over, unless it has failed; the caller owns it."""
        if self._reason:
            self.end()
        child, self.child = self.child, None
        self._ready_since = self._due = None
        return child

    def end(self) -> None:
        """Kill the process, and plan none; its remains are cleared in the background."""
        child, self.child = self.child, None
        self._ready_since, self._due, self._reason = None, None, ""
        if child:
            child.kill()
            clearing = threading.Thread(target=child.wait, daemon=True)
            clearing.start()
            self._ending = [*(thread for thread in self._ending if thread.is_alive()), clearing]

    def close(self) -> None:
        """End the process, and wait until nothing is left of it."""
        self.end()
        for clearing in self._ending:
            clearing.join(END_SECONDS)
