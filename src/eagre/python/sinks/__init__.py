"""Sinks in Python, which workers run next to the rows."""

from eagre.python.sinks.base import Refused, Sink
from eagre.python.sinks.http import Http

__all__ = ["Http", "Refused", "Sink"]
