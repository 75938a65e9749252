"""Latency SLOs, such as ``"p99 < 100ms"``, and the burn rate of their error budget."""

from __future__ import annotations

import re
from dataclasses import dataclass

from eagre.config import interval_ms
from eagre.errors import SettingsError

_FORM = re.compile(r"\s*p(\d{1,2}(?:\.\d+)?|999+)\s*<=?\s*(\d[\d.]*\s*[a-zA-Z]+)\s*")
_TWO_DIGITS = 100


@dataclass(frozen=True)
class Slo:
    """The percentage of records that must be faster than a latency target.

    >>> slo = Slo.parse("p99 < 100ms")
    >>> slo.percentile, slo.within_ms, slo.budget
    (99.0, 100, 0.01)
    >>> Slo.parse("p999 < 1 s").percentile
    99.9

    Attributes:
        text: The SLO as the user wrote it.
        percentile: The percentage of records.
        within_ms: The latency target.
    """

    text: str
    percentile: float
    within_ms: int

    @classmethod
    def parse(cls, text: str) -> Slo:
        """Parse an SLO.

        Raises:
            SettingsError: It is malformed.
        """
        match = _FORM.fullmatch(text)
        percentile = float(match[1]) if match else 0.0
        while percentile >= _TWO_DIGITS:
            percentile /= 10
        if match is None or percentile <= 0:
            raise SettingsError(
                "SLO_MALFORMED",
                f"an SLO must be a percentile and a time, not {text!r}.",
                hint='write, for example, slo="p99 < 100ms" or slo="p99.9 < 1 second".',
            )
        return cls(text, percentile, interval_ms(match[2]))

    @property
    def budget(self) -> float:
        """The error budget: the share of records that may be slower."""
        return round(1 - self.percentile / 100, 10)

    def burn(self, records: int, slow: int) -> float:
        """Return the burn rate of the error budget; above 1, the SLO is violated.

        >>> Slo.parse("p99 < 100ms").burn(1000, 20)
        2.0
        """
        return round(slow / records / self.budget, 3) if records else 0.0
