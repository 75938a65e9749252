"""Mid-epoch commits: how far a pipeline has delivered within Spark's current epoch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from eagre.broker.topics import offsets_of
from eagre.commit.file_format import with_format, without_format
from eagre.commit.store import create

if TYPE_CHECKING:
    from eagre.broker.topics import Offsets
    from eagre.commit.store import CheckpointPath

MID_EPOCH_COMMITS = "mid-epoch-commits"
"""The folder in a checkpoint; each file in it is one commit, numbered."""
FOLDER_BEFORE_0_3 = "bookmarks"
"""The name of the folder before 0.3; its files are still read."""
RETAINED = 100


@dataclass(frozen=True)
class MidEpochCommit:
    """A position up to which every row is delivered.

    It holds the entries that Spark's two logs would have if the epoch had ended there. The next run
    writes them into the logs before it starts, and continues from this position, not from the start
    of the epoch.

    Attributes:
        batch: The epoch that the commit belongs to.
        position: The source offsets.
        offsets: The entry of Spark's offset log.
        commit: The entry of Spark's commit log.
        ends: The output's end offsets before the commit, for exactly once.
    """

    batch: int
    position: Offsets
    offsets: str
    commit: str
    ends: Offsets

    @classmethod
    def of(cls, entries: dict[str, Any]) -> MidEpochCommit:
        """Create a commit from its JSON entries."""
        offsets = {name: offsets_of(entries[name]) for name in ("position", "ends")}
        return cls(**{**entries, **offsets})

    @classmethod
    def read(cls, path: CheckpointPath) -> MidEpochCommit:
        """Read a file that ``write`` wrote."""
        return cls.of(without_format(path))

    def write(self, checkpoint: CheckpointPath) -> None:
        """Write the commit into a checkpoint, and delete the oldest one."""
        last = newest(checkpoint)
        number = int(last.name) + 1 if last else 0
        create(checkpoint / MID_EPOCH_COMMITS / str(number), json.dumps(with_format(asdict(self))))
        for folder in (MID_EPOCH_COMMITS, FOLDER_BEFORE_0_3) if number >= RETAINED else ():
            (checkpoint / folder / str(number - RETAINED)).unlink(missing_ok=True)

    def rows_since(self, before: Offsets) -> int:
        """Count the records between a position and this one.

        >>> at = MidEpochCommit(0, {"a": {0: 7, 1: 2}}, "", "", {})
        >>> at.rows_since({"a": {0: 5}})
        4
        """
        return sum(
            offset - before.get(topic, {}).get(partition, 0)
            for topic, partitions in self.position.items()
            for partition, offset in partitions.items()
        )


def newest(checkpoint: CheckpointPath) -> CheckpointPath | None:
    """Return the file of the newest mid-epoch commit, of any epoch; None if there is none."""
    files = [*numbered(checkpoint / MID_EPOCH_COMMITS), *numbered(checkpoint / FOLDER_BEFORE_0_3)]
    return max(files, key=lambda path: int(path.name), default=None)


def numbered(folder: CheckpointPath) -> list[CheckpointPath]:
    """Return the entries of a log: the files whose name is a number."""
    try:
        return [path for path in folder.iterdir() if path.name.isdigit()]
    except FileNotFoundError:
        return []
