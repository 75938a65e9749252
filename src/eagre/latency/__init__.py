"""Latency as a distribution: recorded whole, reported by percentiles."""

from eagre.latency.histogram import Histogram

__all__ = ["Histogram"]
