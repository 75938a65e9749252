"""The Spark child's connection to its parent: sends events, receives commands."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass, field
from queue import Queue
from typing import Any, TextIO


@dataclass
class Parent:
    """Sends events to the parent process and receives its commands."""

    events: TextIO
    orders: Queue[str] = field(default_factory=Queue)
    draining: threading.Event = field(default_factory=threading.Event)

    def tell(self, event: str, **data: Any) -> None:  # noqa: ANN401  (whatever JSON holds)
        """Report an event."""
        self.events.write(json.dumps({"event": event, **data}) + "\n")
        self.events.flush()

    def say(self, text: str) -> None:
        """Report a message for the user."""
        self.tell("note", text=text)

    def listen(self) -> None:
        """Receive commands in the background; when standard input ends, kill the process group."""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "drain":
                self.draining.set()
            else:
                self.orders.put(line.strip())
        os.killpg(0, signal.SIGKILL)


class Relay(logging.Handler):
    """Forwards warnings of this package to the parent, which shows them to the user."""

    def __init__(self, parent: Parent) -> None:
        super().__init__(logging.WARNING)
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        """Forward a warning."""
        self._parent.say(record.getMessage())
