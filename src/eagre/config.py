"""Versions, folders and intervals that every layer shares. No PySpark, no I/O."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

from eagre.errors import SettingsError

SPARK_VERSION = (4, 3)
"""The Spark release line that Eagre supports."""

JAVA_VERSIONS = (17, 21, 25)
"""The Java releases that Spark 4.3 runs on."""

LOOPBACK = "127.0.0.1"

_UNITS_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


def interval_ms(text: str) -> int:
    """Parse an interval and return milliseconds.

    >>> interval_ms("30 seconds"), interval_ms("500ms"), interval_ms("5 min")
    (30000, 500, 300000)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text.lower())
    if match is None or match[2] not in _UNITS_MS:
        raise SettingsError(
            "INTERVAL_MALFORMED",
            f"an interval must be a number and a unit, not {text!r}.",
            hint="write, for example, '500 ms', '30 seconds' or '5 minutes'.",
        )
    return round(float(match[1]) * _UNITS_MS[match[2]])


def spark_interval(text: str) -> str:
    """Return an interval in Spark's syntax.

    >>> spark_interval("5 min")
    '300000 milliseconds'
    """
    return f"{interval_ms(text)} milliseconds"


def megabytes(memory: str) -> int:
    """Parse a memory size in Spark's syntax; the default unit is megabytes.

    >>> megabytes("2g"), megabytes("512m"), megabytes("768"), megabytes("1048576k")
    (2048, 512, 768, 1024)
    """
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", memory.strip().lower())
    if match is None:
        raise SettingsError(
            "MEMORY_MALFORMED",
            f"memory must be a number and a unit, not {memory!r}.",
            hint="write, for example, 512m or 2g.",
        )
    factor = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024 * 1024}[match[2]]
    return max(1, int(int(match[1]) * factor))


def timestamp_ms(text: str) -> int:
    """Parse an ISO 8601 time and return milliseconds since 1970; the default zone is UTC.

    >>> timestamp_ms("2026-01-01T00:00:07Z"), timestamp_ms("2026-01-01T01:00:07+01:00")
    (1767225607000, 1767225607000)
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            "START_MALFORMED",
            f"a start must be earliest, latest or an ISO 8601 time, not {text!r}.",
            hint="write, for example, 2026-11-15T08:30:00Z.",
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def counted(number: int, thing: str) -> str:
    """Format a number with its noun.

    >>> counted(1, "partition"), counted(2000, "record")
    ('1 partition', '2,000 records')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def cache_dir() -> Path:
    """Return the user's cache folder for jars: ``EAGRE_CACHE``, or the system's cache folder."""
    return _user_folder("EAGRE_CACHE", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """Return the folder that registers running brokers: ``EAGRE_STATE``, or the system's."""
    return _user_folder("EAGRE_STATE", "XDG_STATE_HOME", ".local/state")


def _user_folder(variable: str, system_variable: str, below_home: str) -> Path:
    if chosen := os.environ.get(variable):
        return Path(chosen)
    if base := os.environ.get(system_variable):
        return Path(base) / "eagre"
    try:
        return Path.home() / below_home / "eagre"
    except RuntimeError:
        raise SettingsError(
            "HOME_UNKNOWN",
            f"HOME is not set, and user {os.getuid()} has no home folder.",
            hint="set HOME, or EAGRE_CACHE and EAGRE_STATE.",
        ) from None


def project_dir() -> Path:
    """Return the folder of the current project's checkpoints, logs and broker data."""
    return Path.cwd() / ".eagre"
