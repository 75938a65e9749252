"""Records that killed their task twice: kept beside the checkpoint, and left out from then on."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from eagre.errors import CheckpointError
from eagre.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from eagre.error_policy import Position

QUARANTINE = "eagre-quarantine.json"
DEATHS = 2
"""One may be chance: an outage, a full disk, a neighbour."""


class Quarantine:
    """How often a task failed at each record."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / QUARANTINE
        self._deaths: Counter[Position] = Counter()
        if not self._path.exists():
            return
        try:
            entries = json.loads(self._path.read_text())
            self._deaths.update({(str(t), int(p), int(o)): int(n) for t, p, o, n in entries})
        except (ValueError, TypeError) as error:
            raise CheckpointError(
                "QUARANTINE_BROKEN",
                f"{self._path} cannot be read ({error}).",
                hint="remove it: records that kill their task are then found again.",
            ) from None

    @property
    def positions(self) -> tuple[Position, ...]:
        """The records to leave out."""
        return tuple(at for at, deaths in sorted(self._deaths.items()) if deaths >= DEATHS)

    def blame(self, suspects: Iterable[Position]) -> list[Position]:
        """Count deaths at some records; give those that are now left out."""
        before = set(self.positions)
        self._deaths.update(suspects)
        entries = [[*at, deaths] for at, deaths in sorted(self._deaths.items())]
        write_whole(self._path, json.dumps(entries), durable=True)
        return [at for at in self.positions if at not in before]
