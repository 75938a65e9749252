"""Delivery: exactly once, dead letters, and records that crash their task."""

from eagre.delivery.exactly_once import Outputs, begin
from eagre.delivery.quarantine import Quarantine

__all__ = ["Outputs", "Quarantine", "begin"]
