"""The page: the stream and its tail, every second; and the same for machines."""

from eagre.dashboard.board import Dashboard

__all__ = ["Dashboard"]
