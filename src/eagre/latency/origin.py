"""When a result's event happened: in a header, a field, or the record's timestamp."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from eagre.connectors.kafka import HEADER, PROVENANCE_HEADER
from eagre.latency.meter import Result

_UNITS_US = ((1e11, 1_000_000.0), (1e14, 1_000.0), (1e17, 1.0))
"""Numbers below each bound are seconds, milliseconds, microseconds; larger ones nanoseconds."""
_NANOSECOND_US = 0.001
_BINARY = 8


def provenance(record: Any) -> Result | None:  # noqa: ANN401  (librdkafka's record has no types)
    """Read the provenance of a result; None if it has none."""
    for name, value in record.headers() or ():
        if name not in (PROVENANCE_HEADER, HEADER) or not value:
            continue
        words = value.split(b" ")
        place, time_ms = words[-2:] if len(words) > 1 else (b"", b"")
        if not time_ms.isdigit():
            return None
        at = b"/".join(place.split(b"/")[: -1 if name == PROVENANCE_HEADER else -2])
        return Result(at, int(time_ms), record.timestamp()[1])
    return None


@dataclass(frozen=True)
class Origin:
    """Where the time of a record's event is.

    Without field and header it is Eagre's header, if a record has it, or else the record's
    timestamp.

    Attributes:
        field: A field of the JSON value; dots separate nested names.
        header: A header.
    """

    field: str | None = None
    header: str | None = None

    def __str__(self) -> str:
        if self.field:
            return f"the field {self.field!r}"
        return f"the header {self.header!r}" if self.header else "the record's timestamp"

    def time_us(self, record: Any) -> int | None:  # noqa: ANN401  (librdkafka's)
        """Return when the record's event happened, in microseconds since 1970; None if unknown."""
        if self.field:
            return _of_field(record.value(), self.field.split("."))
        if self.header:
            return parse_time(dict(record.headers() or ()).get(self.header))
        known = provenance(record)
        stamp = known.origin_ms if known else record.timestamp()[1]
        return stamp * 1000 if stamp > 0 else None


def parse_time(value: Any) -> int | None:  # noqa: ANN401  (of a record)
    """Return a time in microseconds since 1970; None if it is none.

    A number is in seconds, milliseconds, microseconds or nanoseconds, by its size. A text is a
    number or an ISO 8601 time, in UTC unless it says otherwise. Eight bytes that are no text are a
    big-endian number.

    >>> parse_time(1_700_000_000), parse_time("1700000000000"), parse_time(b"1700000000000000")
    (1700000000000000, 1700000000000000, 1700000000000000)
    >>> parse_time("2023-11-14T22:13:20Z")
    1700000000000000
    """
    if isinstance(value, bytes):
        text = value.decode("ascii", "replace")
        binary = len(value) == _BINARY and not text.strip().isdigit()
        return parse_time(int.from_bytes(value, "big") if binary else text)
    if isinstance(value, str):
        return _of_text(value.strip())
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        return None
    unit = next((unit for bound, unit in _UNITS_US if value < bound), _NANOSECOND_US)
    whole = isinstance(value, int) and unit >= 1
    return value * int(unit) if whole else int(value * unit)


def _of_text(text: str) -> int | None:
    try:
        return parse_time(int(text) if text.isdigit() else float(text))
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000_000)


def _of_field(value: bytes | None, path: list[str]) -> int | None:
    try:
        found = json.loads(value or b"null")
    except ValueError:
        return None
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return parse_time(found)
