"""Judges results: their latency and their correctness.

Wrong, duplicate and missing results are counted, so that a fast wrong answer does not count.
It runs after the load has ended, so that it does not affect the measurement.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from eagre.latency import Histogram
from eagre.trial.judge import SECOND_US
from eagre.trial.load import PROBES
from eagre_bench.jobs.semantics import Semantics, forward
from eagre_bench.workload import merchants

if TYPE_CHECKING:
    from eagre.trial.meter import Measurement
    from eagre_bench.workload import Workload

SETTLE_US = 300_000
"""Results that arrive so soon after a kill were sent before it."""

FORWARDED = ("id", "event_time")
"""The identity of forwarded events; ``dedup`` sends some ids again."""

Slot = tuple[Any, ...]


class Verified:
    """Judges the results of a workload against its reference."""

    def __init__(self, workload: Workload, what: Measurement) -> None:
        self._what, self._load = what, what.load
        self._workload = workload
        self._semantics = workload.semantics
        if what.forwards:
            identity = (self._semantics.slot[0],) if workload.name == "field" else FORWARDED
            self._semantics = Semantics(self._semantics.key, forward, identity)
        self._content: dict[tuple[Slot, int], dict[str, Any]] = {}
        self._pending: dict[Slot, deque[tuple[int, int]]] = defaultdict(deque)
        self._open: dict[int, int] = {}
        self._done: dict[int, tuple[int, int]] = {}
        self._newest: dict[Slot, int] = {}
        self.wrong = self.repeated = self.results = 0
        self.examples: list[str] = []
        self._expect()
        self._probes = self._probe_names()

    def take(self, value: bytes, received_us: int, appended_ms: int) -> None:
        """Compare a result with the reference, and mark its event as answered."""
        result = _parse(value)
        slot, version = self._place(result)
        if slot and slot[0] in self._probes:
            return
        self.results += 1
        if self._content.get((slot, version)) != result:
            self._note_wrong(value)
        elif version <= self._newest.get(slot, 0):
            self.repeated += 1
        else:
            self._newest[slot] = version
            self._close(slot, version, received_us, appended_ms)

    def complete(self) -> bool:
        """Return whether every event has been answered."""
        return not self._open

    def verdict(self) -> dict[str, Any]:
        """Return percentiles, counts, the curve and the seconds."""
        total = Histogram()
        seconds: dict[int, Histogram] = defaultdict(Histogram)
        for number, (received, _) in self._measured():
            due = self._load.due_us(number)
            total.record(received - due)
            seconds[(due - self._what.from_us) // SECOND_US].record(received - due)
        return {
            **total.summary(),
            "mean_ms": total.mean_ms,
            "lost": len(self._open),
            "repeated": self.repeated,
            "wrong": self.wrong,
            "wrong_examples": self.examples,
            "results": self.results,
            "curve": total.curve(),
            "series": [_second(at, figures) for at, figures in sorted(seconds.items())],
            "recovery_ms": self._recovery_ms(),
        }

    def links(self, appended: list[int]) -> dict[str, float]:
        """Split the latency of a typical event by the timestamps of both topics.

        Typical is the middle half; the parts are means, so that they add up.

        Args:
            appended: When each event was appended to the source, in milliseconds.

        The broker truncates to milliseconds, so half a millisecond is added.
        """
        spans = sorted(
            (
                (
                    appended[number] + 0.5 - self._load.due_us(number) / 1000,
                    result_ms - appended[number],
                    received / 1000 - result_ms - 0.5,
                )
                for number, (received, result_ms) in self._measured()
                if number < len(appended)
            ),
            key=sum,
        )
        typical = spans[len(spans) // 4 : len(spans) - len(spans) // 4]
        if not typical:
            return {}
        means = [sum(column) / len(typical) for column in zip(*typical, strict=True)]
        return dict(zip(("topic", "engine", "reader"), means, strict=True))

    def _measured(self) -> list[tuple[int, tuple[int, int]]]:
        return [
            (number, done)
            for number, done in self._done.items()
            if self._what.from_us <= self._load.due_us(number) < self._what.until_us
        ]

    def _expect(self) -> None:
        """Run the sent events through the reference."""
        table = merchants()
        states: dict[str, dict[str, Any]] = defaultdict(dict)
        for number, (key, event, _) in enumerate(self._load.feed()):
            results = self._semantics.step(states[key], event, table)
            for result in results:
                slot, version = self._place(result)
                self._content[slot, version] = result
                self._pending[slot].append((version, number))
            if results:
                self._open[number] = len(results)

    def _place(self, result: dict[str, Any]) -> tuple[Slot, int]:
        semantics = self._semantics
        version = result.get(semantics.version, 0) if semantics.version else 1
        slot = tuple(result.get(name) for name in semantics.slot)
        return slot, version if isinstance(version, int) else 0

    def _close(self, slot: Slot, version: int, received_us: int, appended_ms: int) -> None:
        pending = self._pending[slot]
        while pending and pending[0][0] <= version:
            _, number = pending.popleft()
            self._open[number] -= 1
            if not self._open[number]:
                del self._open[number]
                self._done[number] = (received_us, appended_ms)

    def _note_wrong(self, value: bytes) -> None:
        self.wrong += 1
        if len(self.examples) < 3:  # noqa: PLR2004
            self.examples.append(value[:300].decode(errors="replace"))

    def _probe_names(self) -> set[str]:
        fields = ("event_id", "id", "card")
        sent = islice(self._workload.events(0), PROBES)
        return {event[field] for event in sent for field in fields if field in event}

    def _recovery_ms(self) -> float | None:
        """Return the time from the kill to the first new result after the restart."""
        if not self._what.kill_us:
            return None
        later = [received for received, _ in self._done.values()]
        reborn = [r for r in later if r > self._what.kill_us + SETTLE_US]
        return (min(reborn) - self._what.kill_us) / 1000 if reborn else None


def _parse(value: bytes) -> dict[str, Any]:
    try:
        result = json.loads(value)
    except ValueError:
        return {}
    return result if isinstance(result, dict) else {}


def _second(at: int, figures: Histogram) -> dict[str, float]:
    total = figures.summary()
    percentiles = {name: total[name] for name in ("p50_ms", "p99_ms", "max_ms")}
    return {"second": at, **percentiles, "records": figures.records}
