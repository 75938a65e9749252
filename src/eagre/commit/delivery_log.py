"""The delivery log of exactly once: which run wrote, and where the output ended at each commit."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from eagre.broker.topics import offsets_of
from eagre.errors import CheckpointError
from eagre.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from eagre.broker.topics import Offsets

DELIVERY_LOG = "eagre-delivery.json"
RETAINED = 8
"""Output snapshots to retain: two would do if every epoch got one."""


@dataclass(frozen=True)
class OutputSnapshot:
    """The end offsets of the output at a commit.

    Attributes:
        after: Every result of a batch after the one that follows this batch lies behind the
            snapshot, and so does every result of rows that such a batch reads again.
        incarnation: The run that was writing then.
        ends: The output's end offsets.
    """

    after: int
    incarnation: int
    ends: Offsets


@dataclass
class DeliveryLog:
    """The file; written whole, so that a kill leaves the old one or the new one.

    Attributes:
        path: Where it is.
        id: Names this checkpoint's results among others in the same topic.
        incarnation: The number of the run that writes, or wrote last.
        snapshots: The latest, in their order.
        reach: The highest source offsets of which runs before this one delivered something. A run
            that dies before it has come past them leaves their results behind its own beginning:
            it takes no snapshot until then.
    """

    path: Path
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    incarnation: int = 0
    snapshots: list[OutputSnapshot] = field(default_factory=list)
    reach: Offsets = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> DeliveryLog:
        """Read a checkpoint's delivery log, or begin one.

        Raises:
            CheckpointError: It is there and cannot be read.
        """
        path = folder / DELIVERY_LOG
        if not path.exists():
            return cls(path)
        try:
            entries = json.loads(path.read_text())
            snapshots = [
                OutputSnapshot(entry["after"], entry["incarnation"], offsets_of(entry["ends"]))
                for entry in entries["marks"]
            ]
            return cls(path, str(entries["id"]), int(entries["incarnation"]), snapshots)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                "DELIVERY_LOG_BROKEN",
                f"{path} cannot be read ({error}); what was delivered since the last commit is not "
                "known.",
                hint="restore it from a copy. Without it, remove the file: the next run repeats "
                "once what came since the last commit.",
            ) from None

    def begin(self) -> None:
        """Count a new run, before it writes anything."""
        self.incarnation += 1
        self.write()

    def passed(self, position: Offsets) -> bool:
        """Whether committed source offsets lie behind all that runs before this one delivered."""
        return all(
            position.get(topic, {}).get(partition, -1) > offset
            for topic, partitions in self.reach.items()
            for partition, offset in partitions.items()
        )

    def add_snapshot(self, after: int, ends: Offsets) -> None:
        """Record where the output ends."""
        earlier = [snapshot for snapshot in self.snapshots if snapshot.after < after]
        self.snapshots = [*earlier, OutputSnapshot(after, self.incarnation, ends)][-RETAINED:]
        self.write()

    def before(self, committed: int) -> OutputSnapshot:
        """Give the latest snapshot behind which all results since a committed batch lie.

        Raises:
            CheckpointError: There is none: the log and the checkpoint are of different moments.
        """
        earlier = [snapshot for snapshot in self.snapshots if snapshot.after < committed]
        if not earlier:
            raise CheckpointError(
                "DELIVERY_LOG_BROKEN",
                f"{self.path} holds no output snapshot from before the last commit ({committed}).",
                hint="restore the checkpoint and the delivery log from the same copy.",
            )
        return max(earlier, key=lambda snapshot: snapshot.after)

    def write(self) -> None:
        """Write the file, and make sure that it is on the disk."""
        entries = {
            "id": self.id,
            "incarnation": self.incarnation,
            "marks": [asdict(snapshot) for snapshot in self.snapshots],
        }
        write_whole(self.path, json.dumps(entries), durable=True)
