"""Monitors a running query from outside, because Spark reports nothing until an epoch ends."""

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

CHECK_SECONDS = 5
STALL_SECONDS = 15
"""After so long without a result while records are waiting, the query is stalled."""
GIVE_UP_SECONDS = 120
"""After so long stalled while the brokers respond, the query is restarted."""


@dataclass
class Watchdog:
    """Detects stalls and changed topics; the run calls it every second.

    Attributes:
        topics: The sources' cluster; None if no source is a topic.
        ids: The id and the number of partitions of each source topic at the start of the run.
        tell: Receives the events ``stalled`` with a reason, ``flows``, and notes.
        trigger_seconds: The trigger of micro-batches, between which nothing is read or written.
        reader_seconds: How long a partition may have no reader while others have one: tasks do
            not begin at the same time, on a cluster even less than in one process.
        grown: Whether a source has gained partitions since the start.
    """

    topics: Topics | None
    ids: Mapping[str, tuple[str, int]]
    tell: Callable[..., None]
    clock: Callable[[], float] = time.monotonic
    trigger_seconds: float = 0.0
    reader_seconds: float = CHECK_SECONDS
    grown: bool = field(default=False, init=False)
    _checked: float = field(default=0.0, init=False)
    _last_progress: float | None = field(default=None, init=False)
    _seen: tuple[int | None, int] = field(default=(None, 0), init=False)
    _stalled: float | None = field(default=None, init=False)
    _reported: set[str] = field(default_factory=set, init=False)
    _missing: dict[tuple[str, int], float] = field(default_factory=dict, init=False)

    def observe(
        self,
        written: int | None,
        consumed: int,
        lags: Mapping[tuple[str, int], int],
        *,
        unreachable: bool = False,
    ) -> None:
        """Process the figures of one second.

        Args:
            written: The sum of the output's end offsets, if known.
            consumed: How many records the consumers of this process have read.
            lags: The lag of each consumer; empty on a cluster, where stalls are not detected.
            unreachable: Whether the output's brokers do not respond.

        Raises:
            PipelineFailed: A source topic was replaced, or the query is permanently stalled.
        """
        self._check_progress(written, consumed, sum(lags.values()), unreachable=unreachable)
        if self.clock() - self._checked >= CHECK_SECONDS:
            self._checked = self.clock()
            self._check_sources(lags)

    def _check_progress(
        self, written: int | None, consumed: int, lag: int, *, unreachable: bool
    ) -> None:
        now = self.clock()
        progressed = not unreachable and (written, consumed) != self._seen
        if self._last_progress is None or progressed or not (lag or unreachable):
            if self._stalled is not None:
                self._stalled = None
                self.tell("flows")
            self._last_progress, self._seen = now, (written, consumed)
            return
        if now - self._last_progress < STALL_SECONDS + self.trigger_seconds:
            return
        if self._stalled is None:
            self._stalled = now
            quiet = f"{STALL_SECONDS + self.trigger_seconds:g} s"
            waiting = f"lag is {counted(lag, 'record')} and no result for {quiet}"
            address = self.topics.brokers if self.topics else "the sink's address"
            no_brokers = f"no Kafka broker answers at {address}"
            self.tell("stalled", reason=no_brokers if unreachable else waiting)
        if now - self._stalled > GIVE_UP_SECONDS and not unreachable:
            raise PipelineFailed(
                "STALLED",
                f"no result for {now - self._last_progress:.0f} s although records are waiting.",
            )

    def _check_sources(self, lags: Mapping[tuple[str, int], int]) -> None:
        if not self.topics:
            return
        try:
            described = self.topics.describe(self.ids)
            hidden = self.topics.hidden(name for name in self.ids if name not in described)
            ends, begins = self.topics.ends(described), self.topics.begins(described)
        except BrokerError:
            return
        for name, (id_, partitions) in self.ids.items():
            if name in hidden:
                self._once(
                    f"topic {name!r} is hidden from this client: an ACL no longer allows its user "
                    "to describe it"
                )
                continue
            if name not in described:
                raise self._replaced(name, "deleted")
            if described[name].id != id_:
                raise self._replaced(name, "deleted and created again")
            if described[name].partitions > partitions:
                self.grown = True
                self._once(
                    f"topic {name!r} has grown from {partitions} to {described[name].partitions} "
                    "partitions; the new ones are not read yet"
                )
        self._check_readers(ends, lags)
        self._check_retention(begins, ends, lags)

    def _check_readers(self, ends: Offsets, lags: Mapping[tuple[str, int], int]) -> None:
        """Report partitions without a consumer while other partitions of the topic have one.

        Without enough task slots, Real-Time Mode silently skips partitions.
        """
        now = set()
        for name, (_, partitions) in self.ids.items():
            if not any(topic == name for topic, _ in lags):
                continue
            now |= {
                (name, p)
                for p in range(partitions)
                if (name, p) not in lags and ends.get(name, {}).get(p, 0) > 0
            }
        at = self.clock()
        self._missing = {partition: self._missing.get(partition, at) for partition in now}
        for (name, p), since in sorted(self._missing.items()):
            if at - since >= self.reader_seconds:
                self._once(
                    f"no task reads {name}/{p}: the run has too few task slots, see `eagre size`"
                )

    def _check_retention(
        self, begins: Offsets, ends: Offsets, lags: Mapping[tuple[str, int], int]
    ) -> None:
        for (name, p), lag in lags.items():
            if name not in ends or p not in ends[name]:
                continue
            retained = ends[name][p] - begins[name][p]
            if lag > retained > 0:
                raise PipelineFailed(
                    "RETENTION_OVERTOOK",
                    f"retention deleted {name}/{p} up to offset {begins[name][p]} before it was "
                    f"read: {counted(lag - retained, 'record')} are lost.",
                    hint="increase the topic's retention; the next start needs a new checkpoint or "
                    "the option failOnDataLoss=false.",
                )

    def _replaced(self, name: str, what: str) -> PipelineFailed:
        return PipelineFailed(
            "TOPIC_REPLACED",
            f"topic {name!r} was {what} while the query was reading it.",
            hint="its offsets are not valid any more: start from scratch with "
            "`eagre checkpoint reset`.",
        )

    def _once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self.tell("note", text=text)
