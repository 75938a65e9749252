"""Which events must have a result, over hours: the generators' own rules are for minutes."""

from __future__ import annotations

import re
import runpy
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Event = dict[str, Any]
QUIET_SECONDS = 300.0
UNCLEAR_SECONDS = 15.0
"""An incident whose silence is as near as this to the limit may be one or two."""
REPORTED = re.compile("10*")


def expected_by(generator: str) -> Callable[[Event], bool]:
    """Return the rule of a generator of events."""
    rule: Callable[[Event], bool] = runpy.run_path(generator).get("expects", lambda _: True)
    return rule


class Incidents:
    """The rule of alerts: the 1st, 10th, 100th ... record of an incident must be reported.

    An incident is over after five minutes without a record; the generator forgets none.

    >>> rule, ill = Incidents(), {"service": "a", "metric": "cpu", "value": 1, "news": False}
    >>> def at(minute):
    ...     return rule({**ill, "at": f"2026-01-01T00:{minute:02d}:00Z"})
    >>> at(0), at(1), at(7), at(20)
    (True, False, True, True)
    """

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str], float] = {}

    def __call__(self, event: Event) -> bool:
        """Return whether an event must have a result."""
        if "news" not in event or event["value"] == "n/a":
            return False
        what = event["metric"] or re.sub(r"\d+", "#", event["message"])
        key = event["service"], what
        at = datetime.fromisoformat(event["at"]).timestamp()
        silence = at - self._last.get(key, at - 2 * QUIET_SECONDS)
        if silence > QUIET_SECONDS - UNCLEAR_SECONDS:
            unclear = silence < QUIET_SECONDS + UNCLEAR_SECONDS
            self._records[key] = -(10**9) if unclear else 0
        self._records[key] += 1
        self._last[key] = max(at, self._last.get(key, at))
        return bool(REPORTED.fullmatch(str(self._records[key])))
