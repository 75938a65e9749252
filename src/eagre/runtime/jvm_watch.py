"""Notices a JVM that does not respond: the child's own thread waits for it, and reports nothing."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagre.errors import PipelineFailed
from eagre.runtime.watchdog import GIVE_UP_SECONDS, STALL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

PING_SECONDS = 5
STEP_SECONDS = 1


@dataclass
class JvmWatch:
    """Counts the seconds since the JVM has last answered.

    It counts its own steps and reads no clock: when the whole machine was paused, the JVM gets its
    time to answer all the same.

    Attributes:
        ping: Asks the JVM, and returns when it has answered.
        tell: Receives the events ``stalled`` with a reason, and ``flows``.

    >>> said = []
    >>> watch = JvmWatch(lambda: None, lambda event, **_: said.append(event))
    >>> for _ in range(STALL_SECONDS):
    ...     watch.step()
    >>> watch.answered()
    >>> watch.step()
    >>> said
    ['stalled', 'flows']
    """

    ping: Callable[[], object]
    tell: Callable[..., None]
    _silent: int = field(default=0, init=False)
    _stalled: bool = field(default=False, init=False)

    def start(self, give_up: Callable[[PipelineFailed], None]) -> None:
        """Watch in the background.

        Args:
            give_up: Called with the failure when the JVM has not answered for too long.
        """
        threading.Thread(target=self._ping, daemon=True).start()
        threading.Thread(target=self._watch, args=(give_up,), daemon=True).start()

    def _ping(self) -> None:
        with contextlib.suppress(Exception):  # the JVM has exited: whoever needs it will notice
            while True:
                self.ping()
                self.answered()
                time.sleep(PING_SECONDS)

    def _watch(self, give_up: Callable[[PipelineFailed], None]) -> None:
        try:
            while True:
                time.sleep(STEP_SECONDS)
                self.step()
        except PipelineFailed as failure:
            give_up(failure)

    def answered(self) -> None:
        """Note an answer."""
        self._silent = 0

    def step(self) -> None:
        """Note that a second has passed.

        Raises:
            PipelineFailed: The JVM has not answered for too long.
        """
        self._silent += STEP_SECONDS
        if not self._stalled and self._silent >= STALL_SECONDS:
            self._stalled = True
            self.tell("stalled", reason=f"the JVM has not responded for {STALL_SECONDS} s")
        elif self._stalled and self._silent < STALL_SECONDS:
            self._stalled = False
            self.tell("flows")
        if self._silent > STALL_SECONDS + GIVE_UP_SECONDS:
            raise PipelineFailed(
                "STALLED",
                f"the JVM has not responded for {self._silent} s: it is paused, swapped out, or "
                "busy with garbage collection.",
                hint="give it more memory with --conf spark.driver.memory, or the machine.",
            )
