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

BOOKMARKS = "bookmarks"
"""The folder in a checkpoint; each file in it is one, numbered."""
KEPT = 100


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

    def keep(self, checkpoint: Path) -> None:
        """Write it into a checkpoint's folder; very old ones leave it."""
        last = newest(checkpoint)
        number = int(last.name) + 1 if last else 0
        write_whole(checkpoint / BOOKMARKS / str(number), json.dumps(asdict(self)), durable=True)
        (checkpoint / BOOKMARKS / str(number - KEPT)).unlink(missing_ok=True)

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


def newest(checkpoint: Path) -> Path | None:
    """Give the file of a checkpoint's newest bookmark, of whichever epoch; None without any."""
    return max(numbered(checkpoint / BOOKMARKS), key=lambda path: int(path.name), default=None)


def numbered(folder: Path) -> list[Path]:
    """Give the entries of a log: files that are named by a number."""
    return [p for p in folder.iterdir() if p.name.isdigit()] if folder.exists() else []
