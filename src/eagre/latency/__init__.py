"""Latency as a distribution: recorded whole, reported by percentiles."""

from eagre.latency.histogram import Histogram
from eagre.latency.meter import Meter, Result

__all__ = ["Histogram", "Meter", "Result"]
