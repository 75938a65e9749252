"""Looks at a running query from outside: Spark says nothing until an epoch ends."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagre.config import counted
from eagre.errors import BrokerError, PipelineFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eagre.broker import Topics
    from eagre.broker.topics import Offsets

LOOK_SECONDS = 5
STALL_SECONDS = 15
"""Without a result while the lag grows: the query stands still."""
GIVE_UP_SECONDS = 120
"""Standing still while the broker answers: only a new start can help."""


@dataclass
class Watchdog:
    """Fed every second by the run; tells what is wrong, and when it is right again.

    Attributes:
        topics: The sources' cluster.
        ids: The id and the number of partitions of each source topic, as the run began.
        tell: Hears ``stalled`` with a reason, ``flows``, and notes.
        grown: Whether a source has more partitions than it began with.
    """

    topics: Topics
    ids: Mapping[str, tuple[str, int]]
    tell: Callable[..., None]
    clock: Callable[[], float] = time.monotonic
    grown: bool = field(default=False, init=False)
    _looked: float = field(default=0.0, init=False)
    _moved: float | None = field(default=None, init=False)
    _seen: tuple[int | None, int] = field(default=(None, 0), init=False)
    _stalled: float | None = field(default=None, init=False)
    _said: set[str] = field(default_factory=set, init=False)
    _missing: set[tuple[str, int]] = field(default_factory=set, init=False)

    def look(
        self,
        written: int | None,
        consumed: int,
        positions: Mapping[tuple[str, int], int],
        *,
        silent: bool = False,
    ) -> None:
        """Take a second's figures.

        Args:
            written: Where the output ends, if known.
            consumed: How many records the consumers of this process have taken.
            positions: How far behind each of them is; on a cluster there are none, and nothing
                can be said of a standstill.
            silent: Whether the output's broker does not answer.

        Raises:
            PipelineFailed: A source topic is not what it was, or the query stands still for good.
        """
        self._flow(written, consumed, sum(positions.values()), silent=silent)
        if self.clock() - self._looked >= LOOK_SECONDS:
            self._looked = self.clock()
            self._sources(positions)

    def _flow(self, written: int | None, consumed: int, lag: int, *, silent: bool) -> None:
        now = self.clock()
        moved = not silent and (written, consumed) != self._seen
        if self._moved is None or moved or not (lag or silent):
            if self._stalled is not None:
                self._stalled = None
                self.tell("flows")
            self._moved, self._seen = now, (written, consumed)
            return
        if now - self._moved < STALL_SECONDS:
            return
        if self._stalled is None:
            self._stalled = now
            waiting = f"{counted(lag, 'record')} wait and nothing came out for {STALL_SECONDS} s"
            quiet = f"no Kafka broker answers at {self.topics.brokers}"
            self.tell("stalled", reason=quiet if silent else waiting)
        if now - self._stalled > GIVE_UP_SECONDS and not silent:
            raise PipelineFailed(
                "STALLED", f"nothing came out for {now - self._moved:.0f} s while records wait."
            )

    def _sources(self, positions: Mapping[tuple[str, int], int]) -> None:
        try:
            found = self.topics.describe(self.ids)
            ends, begins = self.topics.ends(found), self.topics.begins(found)
        except BrokerError:
            return
        for name, (id_, partitions) in self.ids.items():
            if name not in found:
                raise self._gone(name, "deleted")
            if found[name].id != id_:
                raise self._gone(name, "deleted and made anew")
            if found[name].partitions > partitions:
                self.grown = True
                self._once(
                    f"topic {name!r} grew from {partitions} to {found[name].partitions} "
                    "partitions; the new ones are not read yet"
                )
        self._unread(ends, positions)
        self._overtaken(begins, ends, positions)

    def _unread(self, ends: Offsets, positions: Mapping[tuple[str, int], int]) -> None:
        """Tell of partitions that no consumer has, where others of the topic have had one a while.

        Without enough slots Real-Time Mode leaves them out, without a word.
        """
        now = set()
        for name, (_, partitions) in self.ids.items():
            if not any(topic == name for topic, _ in positions):
                continue
            now |= {
                (name, p)
                for p in range(partitions)
                if (name, p) not in positions and ends[name].get(p, 0) > 0
            }
        for name, p in sorted(now & self._missing):
            self._once(f"nobody reads {name}/{p}: the run has too few task slots, see `eagre size`")
        self._missing = now

    def _overtaken(
        self, begins: Offsets, ends: Offsets, positions: Mapping[tuple[str, int], int]
    ) -> None:
        for (name, p), behind in positions.items():
            if name not in ends or p not in ends[name]:
                continue
            kept = ends[name][p] - begins[name][p]
            if behind > kept > 0:
                raise PipelineFailed(
                    "RETENTION_OVERTOOK",
                    f"{name}/{p} was cut off at offset {begins[name][p]} before it was read: "
                    f"{counted(behind - kept, 'record')} are lost.",
                    hint="lengthen the topic's retention; the next start goes on only with a fresh "
                    "checkpoint or the option failOnDataLoss=false.",
                )

    def _gone(self, name: str, what: str) -> PipelineFailed:
        return PipelineFailed(
            "TOPIC_REPLACED",
            f"topic {name!r} was {what} while it was read.",
            hint="its offsets mean nothing any more: start afresh with `eagre checkpoint reset`.",
        )

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.tell("note", text=text)
