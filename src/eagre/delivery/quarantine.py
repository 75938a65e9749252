"""Records that crashed their task twice: listed in the checkpoint, and skipped."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from eagre.commit.file_format import parsed, with_format, without_format
from eagre.commit.store import write
from eagre.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eagre.commit.store import CheckpointPath
    from eagre.connectors.base import Position

QUARANTINE = "eagre-quarantine.json"
ENTRIES = "crashes"
CRASHES = 2
"""A single crash may have another cause, such as an outage or a full disk."""


class Quarantine:
    """Counts how often each record crashed its task."""

    def __init__(self, folder: CheckpointPath) -> None:
        self._path = folder / QUARANTINE
        self._crashes: Counter[Position] = Counter()
        if not self._path.exists():
            return
        try:
            entries = _entries(self._path)
            self._crashes.update({(str(t), int(p), int(o)): int(n) for t, p, o, n in entries})
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                "QUARANTINE_BROKEN",
                f"{self._path} cannot be read ({error}).",
                hint="remove it: records that crash their task are then detected again.",
            ) from None

    @property
    def positions(self) -> tuple[Position, ...]:
        """The records to skip."""
        return tuple(at for at, crashes in sorted(self._crashes.items()) if crashes >= CRASHES)

    def blame(self, suspects: Iterable[Position]) -> list[Position]:
        """Count a crash for each suspect; return the records that are now skipped."""
        before = set(self.positions)
        self._crashes.update(suspects)
        entries = [[*at, crashes] for at, crashes in sorted(self._crashes.items())]
        text = json.dumps(with_format({ENTRIES: entries}))
        write(self._path, text)
        return [at for at in self.positions if at not in before]


def _entries(path: CheckpointPath) -> list[Any]:
    """Read the entries of a file; until 0.2 they had no format number."""
    if path.read_text().startswith("["):
        return list(parsed(path.read_text()))
    return list(without_format(path)[ENTRIES])
