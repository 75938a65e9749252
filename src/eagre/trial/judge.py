"""Judges results: their latency, and how many are missing.

It runs after the load has ended, so that it does not affect the measurement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from eagre.latency import Histogram

if TYPE_CHECKING:
    from eagre.trial.meter import Measurement

SECOND_US = 1_000_000
PROVENANCE_PARTS = 3
SENT_FIELD = b'"sent_us":'
MICROSECOND_DIGITS = 16


class Judge(Protocol):
    """The interface that the meter uses."""

    def take(self, value: bytes, received_us: int, appended_ms: int) -> None:
        """Process one result."""

    def complete(self) -> bool:
        """Return whether all expected results have arrived."""

    def verdict(self) -> dict[str, Any]:
        """Return the figures."""


@runtime_checkable
class LinkJudge(Judge, Protocol):
    """A judge that can also split the latency into its parts."""

    def links(self, appended: list[int]) -> dict[str, float]:
        """Return milliseconds by part, given when each event was appended to the source."""


class EventJudge:
    """Judges results by their event; an event is complete when its last result has arrived.

    An event may have several results, as in a leaderboard, or none.

    Args:
        what: The measurement.
        expected: The due times of the events that must have a result.
    """

    def __init__(self, what: Measurement, expected: set[int]) -> None:
        self._what = what
        self._expected = expected
        self._answered: dict[int, int] = {}
        self._results = 0

    def take(self, value: bytes, received_us: int, appended_ms: int) -> None:
        """Store a result of the measured time."""
        del appended_ms
        due = answers(self._what, value)
        if due is not None and self._what.from_us <= due < self._what.until_us:
            self._results += 1
            self._answered[due] = received_us

    def complete(self) -> bool:
        """Return whether every expected event has its results."""
        return self._expected <= self._answered.keys()

    def verdict(self) -> dict[str, Any]:
        """Return percentiles and counts of events, and the number of their results."""
        histogram = Histogram()
        for due, received in self._answered.items():
            histogram.record(received - due)
        return {
            **histogram.summary(),
            "expected": len(self._expected),
            "lost": len(self._expected - self._answered.keys()),
            "results": self._results,
        }


def answers(what: Measurement, evidence: bytes) -> int | None:
    """Return when the event of a result was due: by its ``sent_us``, or by its provenance."""
    if SENT_FIELD in evidence:
        return sent_us(evidence)
    place = provenance(evidence)
    if what.source_begin is None or place is None or place[:2] != (what.load.topic, 0):
        return None
    return what.load.due_us(place[2] - what.source_begin)


def sent_us(value: bytes) -> int:
    """Find the intended send time in a result without parsing all of it.

    It is null, and 0 here, if a timer triggered the result.

    >>> sent_us(b'{"card":"c1","sent_us":1731650000000000,"risk":0.9}')
    1731650000000000
    >>> sent_us(b'{"device":"d1","sent_us":null,"verdict":"silent"}')
    0
    """
    begin = value.index(SENT_FIELD) + len(SENT_FIELD)
    digits = value[begin : begin + MICROSECOND_DIGITS]
    return 0 if digits.startswith(b"null") else int(digits)


def provenance(text: bytes) -> tuple[str, int, int] | None:
    """Parse the provenance header of a result: topic, partition, offset.

    >>> provenance(b"plays/0/1234 1731650000123")
    ('plays', 0, 1234)
    >>> provenance(b'{"card":"c1"}')
    """
    parts = text.partition(b" ")[0].rsplit(b"/", PROVENANCE_PARTS - 1)
    if len(parts) != PROVENANCE_PARTS or not parts[1].isdigit() or not parts[2].isdigit():
        return None
    return parts[0].decode(), int(parts[1]), int(parts[2])
