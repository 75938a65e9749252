"""The Spark child's connection to its parent: sends events, receives commands."""

from __future__ import annotations

import json
import logging
import sys
import threading
from dataclasses import dataclass, field
from queue import Queue
from typing import TYPE_CHECKING, Any, TextIO

from eagre.runtime.process_session import end_own_session

if TYPE_CHECKING:
    from eagre.errors import EagreError


class DrainedBeforeStart(Exception):  # noqa: N818  (not an error)
    """The parent asked to drain before the query started: there is nothing to drain."""


@dataclass
class Parent:
    """Sends events to the parent process and receives its commands.

    Attributes:
        events: Where events are written, one per line.
        orders: The parent's answers, in order.
        draining: Whether the parent has asked to drain.
    """

    events: TextIO
    orders: Queue[str] = field(default_factory=Queue)
    draining: threading.Event = field(default_factory=threading.Event)
    _begun: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def tell(self, event: str, **data: Any) -> None:  # noqa: ANN401  (whatever JSON holds)
        """Report an event."""
        with self._lock:
            self.events.write(json.dumps({"event": event, **data}) + "\n")
            self.events.flush()

    def tell_nothing_drained(self) -> None:
        """Report that the run has ended before its query started."""
        self.tell("ended", drained=True, written=None, epochs=0)

    def tell_failure(self, error: EagreError) -> None:
        """Report why the run has failed."""
        self.tell("failed", code=error.code, problem=error.problem, hint=error.hint)

    def begin(self) -> None:
        """Note that the query starts: from here on a drain has rows to finish.

        Raises:
            DrainedBeforeStart: The parent has asked to drain.
        """
        with self._lock:
            if self.draining.is_set():
                raise DrainedBeforeStart
            self._begun = True

    def say(self, text: str) -> None:
        """Report a message for the user."""
        self.tell("note", text=text)

    def listen(self) -> None:
        """Receive commands in the background; when standard input ends, kill the session."""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "drain":
                self._drain()
            else:
                self.orders.put(line.strip())
        end_own_session()

    def _drain(self) -> None:
        """Request a drain; before the query starts, end at once, as every step may be killed."""
        with self._lock:
            self.draining.set()
            if not self._begun:
                self.tell_nothing_drained()
                end_own_session()


class Relay(logging.Handler):
    """Forwards warnings of this package to the parent, which shows them to the user."""

    def __init__(self, parent: Parent) -> None:
        super().__init__(logging.WARNING)
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        """Forward a warning."""
        self._parent.say(record.getMessage())
