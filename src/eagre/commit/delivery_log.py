"""The delivery log of exactly once: the number of the run, and output snapshots per commit."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from eagre.broker.topics import offsets_of
from eagre.commit.file_format import with_format, without_format
from eagre.commit.store import write
from eagre.errors import CheckpointError

if TYPE_CHECKING:
    from eagre.broker.topics import Offsets
    from eagre.commit.store import CheckpointPath

DELIVERY_LOG = "eagre-delivery.json"
RETAINED = 8
"""Output snapshots to retain; two would suffice if every epoch had one."""


@dataclass(frozen=True)
class OutputSnapshot:
    """The end offsets of the output at a commit.

    Attributes:
        after: A batch number. The results of later batches, except for the next one, come after
            the snapshot. So do the results of rows that those batches read again.
        incarnation: The number of the run that was writing at the time.
        ends: The output's end offsets.
    """

    after: int
    incarnation: int
    ends: Offsets


@dataclass
class DeliveryLog:
    """The delivery log, written atomically: a kill leaves the old file or the new one.

    Attributes:
        path: The file.
        id: Distinguishes this checkpoint's results from others in the same topic.
        incarnation: The number of the current run, or of the last one.
        snapshots: The latest snapshots, oldest first.
        reach: The highest source offsets for which earlier runs delivered results. Until the run
            has passed them, it takes no snapshot: the output before its start still holds results
            that the next run must find.
    """

    path: CheckpointPath
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    incarnation: int = 0
    snapshots: list[OutputSnapshot] = field(default_factory=list)
    reach: Offsets = field(default_factory=dict)

    @classmethod
    def read(cls, folder: CheckpointPath) -> DeliveryLog:
        """Read a checkpoint's delivery log, or create one.

        Raises:
            CheckpointError: The file exists but cannot be read.
        """
        path = folder / DELIVERY_LOG
        if not path.exists():
            return cls(path)
        try:
            entries = without_format(path)
            snapshots = [
                OutputSnapshot(entry["after"], entry["incarnation"], offsets_of(entry["ends"]))
                for entry in entries["marks"]
            ]
            return cls(path, str(entries["id"]), int(entries["incarnation"]), snapshots)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                "DELIVERY_LOG_BROKEN",
                f"{path} cannot be read ({error}); the results delivered since the last commit are "
                "unknown.",
                hint="restore it from a backup. Without a backup, remove the file: the next run "
                "writes the results since the last commit again, once.",
            ) from None

    def begin(self) -> None:
        """Increment the incarnation, before the new run writes anything."""
        self.incarnation += 1
        self.write()

    def passed(self, position: Offsets) -> bool:
        """Return whether committed source offsets are past everything earlier runs delivered."""
        return all(
            position.get(topic, {}).get(partition, -1) > offset
            for topic, partitions in self.reach.items()
            for partition, offset in partitions.items()
        )

    def add_snapshot(self, after: int, ends: Offsets) -> None:
        """Record an output snapshot."""
        earlier = [snapshot for snapshot in self.snapshots if snapshot.after < after]
        self.snapshots = [*earlier, OutputSnapshot(after, self.incarnation, ends)][-RETAINED:]
        self.write()

    def before(self, committed: int) -> OutputSnapshot:
        """Return the latest snapshot that precedes all results since a committed batch.

        Raises:
            CheckpointError: There is none: the log and the checkpoint are out of step.
        """
        earlier = [snapshot for snapshot in self.snapshots if snapshot.after < committed]
        if not earlier:
            raise CheckpointError(
                "DELIVERY_LOG_BROKEN",
                f"{self.path} holds no output snapshot from before the last commit ({committed}).",
                hint="restore the checkpoint and the delivery log from the same backup.",
            )
        return max(earlier, key=lambda snapshot: snapshot.after)

    def write(self) -> None:
        """Write the file and sync it to disk."""
        entries = {
            "id": self.id,
            "incarnation": self.incarnation,
            "marks": [asdict(snapshot) for snapshot in self.snapshots],
        }
        write(self.path, json.dumps(with_format(entries)))
