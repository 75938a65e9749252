"""What was sent and what came back, by an independent consumer: missing, repeated, how late."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from eagre.latency import Histogram

RETAINED_SECONDS = 600
"""How long an answered event is retained, to notice that a result is repeated."""
SETTLING_SECONDS = 90
"""After a fault and its recovery, latencies do not count for so long: a new JVM is slow."""
BEFORE_SECONDS = 15
"""Nor do those of events that were due shortly before a fault."""
OVERDUE_SECONDS = 5
SECOND_US = 1_000_000

Origin = tuple[int, int]
"""Partition and offset of an event in the source."""


class Latency(NamedTuple):
    """The latencies of a window, in ms; without records they are None."""

    records: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass
class Entry:
    """An event: when it was due, whether it must have a result, and what results it has."""

    due_us: int
    expected: bool
    results: set[int] = field(default_factory=set)


class DeliveryTracker:
    """The events and results of one pipeline.

    Deliveries and results arrive in any order; both name the event by its place in the source.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[Origin, Entry] = {}
        self._early: dict[Origin, list[tuple[int, int]]] = {}
        self._disturbed: list[tuple[float, float]] = []
        self._killed: list[tuple[float, float]] = []
        self._fault_us = 0
        self.resumed_us: int | None = None
        self._window = Histogram()
        self.sent = self.expected = self.answered = self.results = 0
        self.repeated = self.unexplained = self.broken = 0

    def deliver(self, origin: Origin, due_us: int, *, expected: bool, broken: bool = False) -> None:
        """Note that the broker has an event."""
        with self._lock:
            self.sent += 1
            self.expected += expected
            self.broken += broken
            self._entries[origin] = entry = Entry(due_us, expected)
            for value, received_us in self._early.pop(origin, ()):
                self._take(entry, value, received_us)

    def receive(self, origin: Origin, value: bytes, received_us: int) -> None:
        """Note a result."""
        with self._lock:
            self.results += 1
            entry = self._entries.get(origin)
            if entry:
                self._take(entry, hash(value), received_us)
            else:
                self._early.setdefault(origin, []).append((hash(value), received_us))

    def disturb(self, at_us: int, *, explains_repeats: bool) -> None:
        """Begin a time in which latencies do not count, and repeated results may be explained."""
        with self._lock:
            self._fault_us, self.resumed_us = at_us, None
            since = at_us - BEFORE_SECONDS * SECOND_US, float("inf")
            self._disturbed.append(since)
            if explains_repeats:
                self._killed.append(since)

    @property
    def resumed_seconds(self) -> float | None:
        """How long after the last disturbance the first result of a later event came."""
        if self.resumed_us is None:
            return None
        return round((self.resumed_us - self._fault_us) / SECOND_US, 2)

    def settle(self, at_us: int) -> None:
        """End it."""
        with self._lock:
            until = at_us + SETTLING_SECONDS * SECOND_US
            for times in (self._disturbed, self._killed):
                times[:] = [(since, min(end, until)) for since, end in times]

    def waiting(self, now_us: int) -> int:
        """Count the expected events that have had no result for a while."""
        with self._lock:
            since = now_us - OVERDUE_SECONDS * SECOND_US
            return sum(
                e.expected and not e.results and e.due_us < since for e in self._entries.values()
            )

    def missing(self, examples: int = 0) -> list[Origin]:
        """Return the expected events without a result; with ``examples``, only so many."""
        with self._lock:
            lost = [at for at, e in self._entries.items() if e.expected and not e.results]
            return lost[:examples] if examples else lost

    def forget(self, now_us: int) -> None:
        """Forget what is answered and old; a result for it that comes now is repeated."""
        with self._lock:
            old = now_us - RETAINED_SECONDS * SECOND_US
            for origin in [at for at, e in self._entries.items() if e.due_us < old and _done(e)]:
                del self._entries[origin]
            for origin in [at for at, early in self._early.items() if early[0][1] < old]:
                self.repeated += len(self._early.pop(origin))

    def window(self) -> Latency:
        """Return the latencies since the last call."""
        with self._lock:
            window, self._window = self._window, Histogram()
        if not window.records:
            return Latency(0, None, None)
        return Latency(window.records, window.at(50), window.at(99))

    def _take(self, entry: Entry, value: int, received_us: int) -> None:
        if value in entry.results:
            self.repeated += 1
            self.unexplained += not _within(self._killed, received_us)
            return
        if entry.expected and not entry.results:
            self.answered += 1
            if self.resumed_us is None and entry.due_us >= self._fault_us:
                self.resumed_us = received_us
            if not _within(self._disturbed, entry.due_us):
                self._window.record(received_us - entry.due_us)
        entry.results.add(value)


def _done(entry: Entry) -> bool:
    return bool(entry.results) or not entry.expected


def _within(times: list[tuple[float, float]], at_us: int) -> bool:
    return any(since <= at_us <= until for since, until in times)
