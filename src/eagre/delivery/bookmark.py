"""Bookmarks: how far a pipeline without state has delivered, while Spark's epoch goes on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from eagre.broker.topics import offsets_of
from eagre.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from eagre.broker.topics import Offsets

BOOKMARK = "eagre-bookmark.json"


@dataclass(frozen=True)
class Bookmark:
    """A place up to which every row is delivered.

    It holds what Spark's two logs would say if the epoch had ended there: the next run puts that
    into them before it starts, and goes on from here, not from the epoch's beginning.

    Attributes:
        batch: The epoch in which it lies.
        position: The source offsets.
        offsets: The entry of Spark's offset log.
        commit: The entry of its commit log.
        ends: Where the output ended before; for exactly once.
    """

    batch: int
    position: Offsets
    offsets: str
    commit: str
    ends: Offsets

    @classmethod
    def of(cls, told: dict[str, Any]) -> Bookmark:
        """Make one of what JSON gave."""
        places = {name: offsets_of(told[name]) for name in ("position", "ends")}
        return cls(**{**told, **places})

    @classmethod
    def read(cls, path: Path) -> Bookmark:
        """Read a file that was written with ``keep``."""
        return cls.of(json.loads(path.read_text()))

    def keep(self, folder: Path) -> None:
        """Write it into a checkpoint, in the place of the one before."""
        write_whole(folder / BOOKMARK, json.dumps(asdict(self)), durable=True)

    def rows_since(self, before: Offsets) -> int:
        """Count the records between a position and this one.

        >>> at = Bookmark(0, {"a": {0: 7, 1: 2}}, "", "", {})
        >>> at.rows_since({"a": {0: 5}})
        4
        """
        return sum(
            offset - before.get(topic, {}).get(partition, 0)
            for topic, partitions in self.position.items()
            for partition, offset in partitions.items()
        )
