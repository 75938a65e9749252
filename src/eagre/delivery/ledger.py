"""What exactly once keeps beside a checkpoint: who wrote, and how far the output had come when."""

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

LEDGER = "eagre-delivery.json"
KEPT = 8
"""Marks kept: two would do if every epoch got one."""


@dataclass(frozen=True)
class Mark:
    """How far the output had come at a moment.

    Attributes:
        after: Every result of a batch after the one that follows this batch lies behind the mark,
            and so does every result of rows that such a batch reads again.
        incarnation: The run that was writing then.
        ends: The output's end offsets.
    """

    after: int
    incarnation: int
    ends: Offsets


@dataclass
class Ledger:
    """The file; written whole, so that a kill leaves the old one or the new one.

    Attributes:
        path: Where it is.
        id: Names this checkpoint's results among others in the same topic.
        incarnation: The number of the run that writes, or wrote last.
        marks: The latest, in their order.
        reach: The highest source offsets of which runs before this one delivered something. A run
            that dies before it has come past them leaves their results behind its own beginning:
            it makes no mark until then.
    """

    path: Path
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    incarnation: int = 0
    marks: list[Mark] = field(default_factory=list)
    reach: Offsets = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Ledger:
        """Read a checkpoint's ledger, or begin one.

        Raises:
            CheckpointError: It is there and cannot be read.
        """
        path = folder / LEDGER
        if not path.exists():
            return cls(path)
        try:
            entries = json.loads(path.read_text())
            marks = [
                Mark(m["after"], m["incarnation"], offsets_of(m["ends"])) for m in entries["marks"]
            ]
            return cls(path, str(entries["id"]), int(entries["incarnation"]), marks)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                "LEDGER_BROKEN",
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

    def mark(self, after: int, ends: Offsets) -> None:
        """Write down how far the output has come."""
        kept = [mark for mark in self.marks if mark.after < after]
        self.marks = [*kept, Mark(after, self.incarnation, ends)][-KEPT:]
        self.write()

    def before(self, committed: int) -> Mark:
        """Give the latest mark behind which all results since a committed batch lie.

        Raises:
            CheckpointError: There is none: ledger and checkpoint are not of one moment.
        """
        fit = [mark for mark in self.marks if mark.after < committed]
        if not fit:
            raise CheckpointError(
                "LEDGER_BROKEN",
                f"{self.path} holds no mark from before the last commit, which is {committed}.",
                hint="restore the checkpoint and the ledger from one copy.",
            )
        return max(fit, key=lambda mark: mark.after)

    def write(self) -> None:
        """Write the file, and make sure that it is on the disk."""
        entries = {
            "id": self.id,
            "incarnation": self.incarnation,
            "marks": [asdict(mark) for mark in self.marks],
        }
        write_whole(self.path, json.dumps(entries), durable=True)
