"""The dashboard: the stream and its latency, every second; and the same as metrics."""

from eagre.dashboard.board import Dashboard

__all__ = ["Dashboard"]
