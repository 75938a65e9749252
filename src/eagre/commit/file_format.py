"""The format number and the checksum of Eagre's files in a checkpoint."""

from __future__ import annotations

import json
import math
import zlib
from typing import TYPE_CHECKING, Any

from eagre.errors import CheckpointError, FileError
from eagre.files import ENTRY, FORMAT, require_known_format

if TYPE_CHECKING:
    from eagre.commit.store import CheckpointPath

CHECKSUM = "checksum"
"""The CRC-32 of the other entries: a digit of an offset that changes on the disk is noticed."""


def with_format(entries: dict[str, Any]) -> dict[str, Any]:
    """Add the format number and the checksum to the entries of a file."""
    return {ENTRY: FORMAT, **entries, CHECKSUM: _checksum(entries)}


def parsed(text: str) -> Any:  # noqa: ANN401  (JSON)
    """Parse JSON that may have been damaged.

    >>> parsed('{"in": {"0": 1e999}}')
    Traceback (most recent call last):
    ValueError: 1e999 is not a number that a release has written

    Raises:
        ValueError: It is not JSON, or something in it that no release has written.
    """
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number that a release has written")
    return number


def without_format(path: CheckpointPath) -> dict[str, Any]:
    """Read a file, check its format number and its checksum, and return its other entries.

    Raises:
        CheckpointError: A newer release wrote the file.
        ValueError: It cannot be parsed, or its entries are not those that were written.
    """
    entries = parsed(_text(path))
    try:
        require_known_format(entries, path)
    except FileError as error:
        raise CheckpointError(
            "CHECKPOINT_NEWER",
            error.problem,
            hint="a newer release wrote it: install that release, or restore an older copy.",
        ) from None
    others = {name: value for name, value in entries.items() if name not in {ENTRY, CHECKSUM}}
    if entries.get(CHECKSUM, _checksum(others)) != _checksum(others):
        raise ValueError("its checksum is wrong")
    return others


def _text(path: CheckpointPath) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise ValueError(error.strerror) from None


def _checksum(entries: dict[str, Any]) -> int:
    """Return the checksum of entries, in any order; JSON makes the numbers of partitions text."""
    written = json.loads(json.dumps(entries))
    return zlib.crc32(json.dumps(written, sort_keys=True).encode())
