"""Checks before the first record: check, size, advise."""

from eagre.preflight.check import Report, check
from eagre.preflight.finding import Finding, explained, known_rules

__all__ = ["Finding", "Report", "check", "explained", "known_rules"]
