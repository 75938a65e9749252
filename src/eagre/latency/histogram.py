"""An HdrHistogram in microseconds, with a separate count of negative values."""

from __future__ import annotations

from typing import Any

PERCENTILES = {
    "p50_ms": 50.0,
    "p95_ms": 95.0,
    "p99_ms": 99.0,
    "p999_ms": 99.9,
    "p9999_ms": 99.99,
}
CURVE = tuple(round(100 * (1 - 10 ** (-step / 10)), 5) for step in range(51))
"""Percentiles from 0 to 99.999, evenly spaced in the number of nines."""

_HIGHEST_US = 3_600_000_000
_DIGITS = 3


class Histogram:
    """The latencies of one period.

    >>> histogram = Histogram()
    >>> for ms in range(1, 101):
    ...     histogram.record(ms * 1000)
    >>> round(histogram.summary()["p50_ms"]), histogram.records
    (50, 100)
    """

    def __init__(self) -> None:
        from hdrh.histogram import HdrHistogram

        self._histogram: Any = HdrHistogram(1, _HIGHEST_US, _DIGITS)
        self._sum_us = 0
        self.records = 0
        self.negative = 0

    def record(self, microseconds: int) -> None:
        """Record one latency; a negative one is recorded as zero and counted separately."""
        self.records += 1
        self._sum_us += microseconds
        if microseconds < 0:
            self.negative += 1
        self._histogram.record_value(min(max(microseconds, 1), _HIGHEST_US))

    def add(self, other: Histogram) -> None:
        """Add the values of another histogram."""
        self._histogram.add(other._histogram)
        self._sum_us += other._sum_us
        self.records += other.records
        self.negative += other.negative

    @property
    def mean_ms(self) -> float:
        """The mean of all recorded values."""
        return self._sum_us / self.records / 1000 if self.records else 0.0

    def summary(self) -> dict[str, float]:
        """Return the percentiles and the maximum in milliseconds, and the number of records."""
        values = {name: self.at(at) for name, at in PERCENTILES.items()}
        highest = self._histogram.get_max_value() / 1000 if self.records else 0.0
        return {**values, "max_ms": highest, "records": self.records, "negative": self.negative}

    def curve(self) -> list[float]:
        """Return the latency in milliseconds at each percentile of ``CURVE``."""
        return [self.at(percentile) for percentile in CURVE]

    def at(self, percentile: float) -> float:
        """Return the latency in milliseconds at a percentile."""
        return float(self._histogram.get_value_at_percentile(percentile)) / 1000
