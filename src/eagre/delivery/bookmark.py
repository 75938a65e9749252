"""Bookmarks: how far a pipeline without state has delivered, while Spark's epoch goes on.

A bookmark holds what Spark's two logs would say if the epoch had ended there. The next run puts it
into them before it starts, so that it goes on from the bookmark, not from the epoch's beginning.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from eagre.delivery.checkpoint import offsets_of
from eagre.delivery.ledger import Ledger
from eagre.errors import CheckpointError
from eagre.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from eagre.broker.topics import Offsets
    from eagre.delivery.checkpoint import Checkpoint

BOOKMARK = "eagre-bookmark.json"


@dataclass(frozen=True)
class Bookmark:
    """A place up to which every row is delivered.

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
    def read(cls, checkpoint: Checkpoint) -> Bookmark | None:
        """Read a checkpoint's bookmark, where there is one for the epoch after its last commit.

        Raises:
            CheckpointError: It is there and cannot be read.
        """
        path = _path(checkpoint)
        if not path.exists():
            return None
        try:
            found = cls.told(json.loads(path.read_text()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                "CHECKPOINT_BROKEN",
                f"{path} cannot be read ({error}).",
                hint="restore it from a copy. Without it, remove the file: the next run repeats "
                "what came since the last commit, at most an hour.",
            ) from None
        return found if found.batch == checkpoint.last_commit() + 1 else None

    @classmethod
    def told(cls, entries: dict[str, Any]) -> Bookmark:
        """Make one of what JSON gave, whose keys are text."""
        places = {name: offsets_of(entries[name]) for name in ("position", "ends")}
        return cls(**{**entries, **places})

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

    def keep(self, checkpoint: Checkpoint) -> None:
        """Write it down, in the place of the one before."""
        write_whole(_path(checkpoint), json.dumps(asdict(self)), durable=True)


def adopt(checkpoint: Checkpoint) -> Bookmark | None:
    """Put a bookmark into Spark's logs, as if its epoch had ended there; give it if there was one.

    The caller holds the checkpoint's lock, and no query runs. A kill in between leaves the bookmark
    to be put there again.
    """
    bookmark = Bookmark.read(checkpoint)
    if bookmark:
        ledger = Ledger.read(checkpoint.path)
        if ledger.marks:
            ledger.mark(bookmark.batch - 1, bookmark.ends)
        for log, entry in (("offsets", bookmark.offsets), ("commits", bookmark.commit)):
            write_whole(checkpoint.path / log / str(bookmark.batch), entry, durable=True)
    _path(checkpoint).unlink(missing_ok=True)
    return bookmark


def _path(checkpoint: Checkpoint) -> Path:
    return checkpoint.path / BOOKMARK
