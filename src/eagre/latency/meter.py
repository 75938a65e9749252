"""The live meter: end-to-end latency of results, per second and in total.

It measures from the source record's Kafka timestamp. Timestamps are truncated to milliseconds, so a
latency reads up to 1 ms too high, half a millisecond on average. The meter does not correct clock
skew; it counts negative latencies.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import Any, NamedTuple

from eagre.latency.histogram import Histogram

RESOLUTION_MS = 1
BUCKETS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
"""Upper bounds of the exported histogram."""

Figures = dict[str, Any]


class Result(NamedTuple):
    """A result that the meter received.

    Attributes:
        at: The ``topic/partition`` of its source record.
        origin_ms: The timestamp of its source record.
        sent_ms: When the sink's producer accepted it.
    """

    at: bytes
    origin_ms: int
    sent_ms: int


class Period:
    """The measurements of one period."""

    def __init__(self) -> None:
        self.histogram = Histogram()
        self.unmeasured = 0
        self.skipped = 0
        self.until_sent_ms = 0
        self.after_sent_us = 0
        self.slow = 0
        self.partitions: dict[bytes, list[int]] = {}

    @property
    def records(self) -> int:
        """The number of measured results."""
        return self.histogram.records

    def take(self, result: Result, received_us: int, slow_us: int) -> int:
        """Record one result, and return its latency in microseconds."""
        latency = received_us - result.origin_ms * 1000
        self.histogram.record(latency)
        self.until_sent_ms += result.sent_ms - result.origin_ms
        self.after_sent_us += received_us - result.sent_ms * 1000
        self.slow += latency > slow_us
        figures = self.partitions.setdefault(result.at, [0, 0, 0])
        figures[0] += 1
        figures[1] += latency
        figures[2] = max(figures[2], latency)
        return latency

    def add(self, other: Period) -> None:
        """Add the measurements of another period."""
        self.histogram.add(other.histogram)
        self.unmeasured += other.unmeasured
        self.skipped += other.skipped
        self.until_sent_ms += other.until_sent_ms
        self.after_sent_us += other.after_sent_us
        self.slow += other.slow

    def figures(self) -> Figures:
        """Return percentiles, counts, and the mean latency of each step."""
        counts: Figures = {
            "records": self.records,
            "unmeasured": self.unmeasured,
            "skipped": self.skipped,
            "slow": self.slow,
        }
        if not self.records:
            return counts
        return {
            **counts,
            **self.histogram.summary(),
            "mean_ms": round(self.histogram.mean_ms, 3),
            "until_sent_ms": round(self.until_sent_ms / self.records, 3),
            "after_sent_ms": round(self.after_sent_us / self.records / 1000, 3),
            "partitions": {
                at.decode(errors="replace"): [n, round(total / n / 1000, 3), worst / 1000]
                for at, (n, total, worst) in self.partitions.items()
            },
        }


class Meter:
    """Records latencies; thread-safe: one thread feeds it, others read its figures.

    >>> meter = Meter()
    >>> meter.take([Result(b"payments/0", 1_000, 1_004)], 1_006_000)
    >>> second = meter.second()
    >>> round(second["p50_ms"]), second["until_sent_ms"], second["after_sent_ms"]
    (6, 4.0, 2.0)
    """

    def __init__(self, slow_ms: int | None = None) -> None:
        self._slow_us = slow_ms * 1000 if slow_ms is not None else 1 << 62
        self._lock = threading.Lock()
        self._now = Period()
        self._total = Period()
        self.buckets = [0] * (len(BUCKETS_MS) + 1)
        self.sum_ms = 0.0

    def take(
        self, results: list[Result], received_us: int, unmeasured: int = 0, skipped: int = 0
    ) -> None:
        """Record results that were received together.

        Args:
            results: The results with provenance.
            received_us: When they were received.
            unmeasured: The number of results without provenance.
            skipped: The number of results that were skipped because there were too many.
        """
        with self._lock:
            self._now.unmeasured += unmeasured
            self._now.skipped += skipped
            for result in results:
                latency = self._now.take(result, received_us, self._slow_us)
                self.buckets[bisect_left(BUCKETS_MS, latency / 1000)] += 1

    def second(self) -> Figures:
        """Close the current second and return its figures."""
        with self._lock:
            last, self._now = self._now, Period()
            self._total.add(last)
            self.sum_ms += last.histogram.mean_ms * last.records
        return last.figures()

    def total(self) -> Figures:
        """Return the figures of all closed seconds."""
        with self._lock:
            return self._total.figures()

    def at(self, percentile: float) -> float:
        """Return the latency in milliseconds at a percentile of all closed seconds."""
        with self._lock:
            return self._total.histogram.at(percentile)
