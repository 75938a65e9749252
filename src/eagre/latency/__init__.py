"""Latency distributions: recorded in full, reported as percentiles."""

from eagre.latency.histogram import Histogram
from eagre.latency.meter import Meter, Result

__all__ = ["Histogram", "Meter", "Result"]
