"""The parent as the Spark child sees it: events go there, orders come from there."""

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
    """The other end: events go there, orders come from there."""

    events: TextIO
    orders: Queue[str] = field(default_factory=Queue)
    draining: threading.Event = field(default_factory=threading.Event)

    def tell(self, event: str, **data: Any) -> None:  # noqa: ANN401  (whatever JSON holds)
        """Report an event."""
        self.events.write(json.dumps({"event": event, **data}) + "\n")
        self.events.flush()

    def say(self, text: str) -> None:
        """Report something for people."""
        self.tell("note", text=text)

    def listen(self) -> None:
        """Take orders in the background until standard input ends; then end everything."""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "drain":
                self.draining.set()
            else:
                self.orders.put(line.strip())
        os.killpg(0, signal.SIGKILL)


class Relay(logging.Handler):
    """Sends the package's own warnings to the parent, so that people see them."""

    def __init__(self, parent: Parent) -> None:
        super().__init__(logging.WARNING)
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        """Send one."""
        self._parent.say(record.getMessage())
