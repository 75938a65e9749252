"""Bookmarks of a running query: one for each interval, in the place of the end of an epoch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagre.delivery import Bookmark
from eagre.errors import BrokerError
from eagre.runtime.epochs import bookmarked
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.broker.topics import Offsets
    from eagre.delivery import Checkpoint, Ledger
    from eagre.jvm import gateway

EPOCHS = {"rows": "1 hour", "pause": "1 hour", "state": "20 days"}
"""How long Spark's own epochs are where there are bookmarks. One with state may not end by itself:
it has more versions of its state by then than Spark has counted."""

STANDING = {
    "spark.eagre.tap": "true",
    # The tap is not on Spark's list of operators; the check has held the others against it.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
}
"""Settings of a query whose state is written while it stands still."""

OLD_SECONDS = 10 * 86_400.0
"""After so long the query is started anew, well before its epoch would end."""

CLOSE_SECONDS = 5.0
"""How long rows that are in work may take when the query is to end, and then their results."""


@dataclass
class Bookmarks:
    """Fed every second by the run.

    Attributes:
        query: Tells how far the query has delivered.
        checkpoint: Where bookmarks are kept.
        every: Seconds from one to the next.
        position: Where the sources were at the last one.
        ledger: That of exactly once, if there is one.
        ends: Asks where the output ends now, before each bookmark: what is delivered after it lies
            behind. Empty where nobody needs it.
        made: How many there are.
    """

    query: gateway.Bookmarks
    checkpoint: Checkpoint
    every: float
    position: Offsets
    ledger: Ledger | None
    ends: Callable[[], Offsets]
    made: int = 0
    _began: float = field(default_factory=time.time)
    _due: float = field(init=False)
    _old: float = field(init=False)
    _asked: float | None = None
    _ends: Offsets = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._due = time.monotonic() + self.every
        self._old = time.monotonic() + OLD_SECONDS

    @property
    def old(self) -> bool:
        """Whether the epoch has become so long that another should begin."""
        return time.monotonic() > self._old

    def look(self) -> dict[str, Any] | None:
        """Ask for a bookmark when it is time, and keep one that has come; say what lies before it.

        Raises:
            BrokerError: The output's cluster does not say where it ends.
        """
        if self._asked is not None and self.query.under_way:
            return None
        told = self._keep()
        now = time.monotonic()
        if self._asked is None and now >= self._due:
            self._ends = self.ends()
            self._asked = time.time()
            self._due = max(self._due + self.every, now)
            self.query.ask()
        return told

    def close(self) -> bool:
        """Let no further row in, and keep a last bookmark; tell whether nothing will come twice."""
        try:
            self._ends = self.ends()
            self._asked = time.time()
            still = self.query.close(CLOSE_SECONDS)
            wait_until(lambda: not self.query.under_way, CLOSE_SECONDS, "")
        except (BrokerError, TimeoutError):
            return False
        return self._keep() is not None and still

    def _keep(self) -> dict[str, Any] | None:
        """Write down what was answered, if anything, once all is passed that it would hide."""
        asked, self._asked = self._asked, None
        if asked is None or (answer := self.query.answer()) is None:
            return None
        state, phases = answer.pop("state"), answer.pop("phases")
        bookmark = Bookmark.of({**answer, "ends": self._ends})
        if self.ledger and not self.ledger.passed(bookmark.position):
            return None
        bookmark.keep(self.checkpoint.path)
        began, self._began = self._began, asked
        rows, self.position = bookmark.rows_since(self.position), bookmark.position
        self.made += 1
        return bookmarked(began, asked, rows, phases, state)
