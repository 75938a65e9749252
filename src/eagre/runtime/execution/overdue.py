"""Notices that a commit is overdue, and says why."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagre.config import counted

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVALS = 3
"""A commit is overdue after so many intervals."""
LEAST_SECONDS = 5.0
"""No commit is overdue earlier, however short the interval."""


@dataclass
class OverdueCommit:
    """Measures the time since the last commit; the run calls it every second.

    Attributes:
        every: Seconds between two commits.
        say: Receives a message when a commit becomes overdue, and when it has come.

    >>> now, said = [0.0], []
    >>> overdue = OverdueCommit(2.0, said.append, lambda: now[0])
    >>> overdue.observe(0, "3 rows are in flight")
    {'overdue_seconds': 0.0, 'overdue_reason': ''}
    >>> now[0] = 7.0
    >>> overdue.observe(0, "3 rows are in flight")
    {'overdue_seconds': 1.0, 'overdue_reason': '3 rows are in flight'}
    >>> said
    ['no commit for 7 s, with an interval of 2 s: 3 rows are in flight']
    >>> overdue.observe(1, "")
    {'overdue_seconds': 0.0, 'overdue_reason': ''}
    >>> said[1]
    'committed again, after 7 s'
    """

    every: float
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _since: float = field(init=False)
    _commits: int = field(default=0, init=False)
    _reported: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def observe(self, commits: int, reason: str) -> dict[str, Any]:
        """Return how long a commit has been overdue.

        Args:
            commits: The number of commits so far.
            reason: What the next commit waits for; empty if there is nothing to commit.
        """
        now = self.clock()
        if commits != self._commits or not reason:
            if self._reported:
                self.say(f"committed again, after {now - self._since:.0f} s")
            self._since, self._commits, self._reported = now, commits, False
        late = now - self._since - max(INTERVALS * self.every, LEAST_SECONDS)
        if late <= 0:
            return {"overdue_seconds": 0.0, "overdue_reason": ""}
        if not self._reported:
            self._reported = True
            self.say(
                f"no commit for {now - self._since:.0f} s, with an interval of "
                f"{self.every:g} s: {reason}"
            )
        return {"overdue_seconds": round(late, 1), "overdue_reason": reason}


def spark_epoch_reason(lag: int | None) -> str:
    """Say why an epoch of Spark's own has not ended; empty if no record is waiting.

    >>> spark_epoch_reason(2)
    "Spark's epoch has not ended, and 2 records are waiting"
    """
    if not lag:
        return ""
    return f"Spark's epoch has not ended, and {counted(lag, 'record')} are waiting"
