"""Schedules the mid-epoch commits of a running query, one per interval."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagre.broker.topics import offsets_of
from eagre.commit.mid_epoch_commit import MidEpochCommit
from eagre.errors import BrokerError
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.broker.topics import Offsets
    from eagre.commit.checkpoint import Checkpoint
    from eagre.commit.delivery_log import DeliveryLog
    from eagre.jvm import gateway

EPOCHS = {"rows": "1 hour", "pause": "1 hour", "state": "20 days"}
"""The length of Spark's epochs for each kind of mid-epoch commits. An epoch with state must not end
by itself, because by then its state has more versions than Spark has counted."""

STATE_SETTINGS = {
    "spark.eagre.aggregateFlush": "true",
    # AggregateFlush is not on Spark's allowlist; Eagre's check has already compared the others.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
}
"""Settings of a query whose mid-epoch commits include state."""

MAX_EPOCH_SECONDS = 10 * 86_400.0
"""The query is restarted after this time, well before its epoch would end."""

PATIENCE_SECONDS = 60.0
"""The limit for the rows in flight before a commit is given up; doubled for the next one."""

CLOSE_SECONDS = 60.0
"""The limit for the rows in flight when the query is stopped, and again for their results."""


@dataclass
class CommitSchedule:
    """Requests a commit per interval and writes it; the run calls it every second.

    Attributes:
        query: Commits the running query.
        checkpoint: The checkpoint to write the commits to.
        every: Seconds between two commits.
        position: The source offsets of the last commit.
        delivery_log: The delivery log of exactly once, if any.
        output_ends: Returns the output's current end offsets. It is called before each commit, so
            that later results come after them. It returns an empty dict without exactly once.
        commits: The number of commits so far.
    """

    query: gateway.MidEpochCommits
    checkpoint: Checkpoint
    every: float
    position: Offsets
    delivery_log: DeliveryLog | None
    output_ends: Callable[[], Offsets]
    commits: int = 0
    _began: float = field(default_factory=time.time)
    _due: float = field(init=False)
    _restart_at: float = field(init=False)
    _requested: float | None = None
    _replaying: bool = False
    _ends: Offsets = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._due = time.monotonic() + self.every
        self._restart_at = time.monotonic() + MAX_EPOCH_SECONDS

    @property
    def epoch_too_long(self) -> bool:
        """Whether the query should be restarted to begin a new epoch."""
        return time.monotonic() > self._restart_at

    @property
    def broken(self) -> str:
        """Why there can be no more commits; empty while there can."""
        return self.query.broken

    @property
    def waits_for(self) -> str:
        """What the next commit waits for."""
        if self._requested is None and self._replaying:
            return "the run still repeats records whose results an earlier run has delivered"
        return self.query.waits_for

    def step(self) -> dict[str, Any] | None:
        """Write a commit that is complete and describe it; request the next one when it is due.

        Raises:
            BrokerError: The output's end offsets cannot be read.
        """
        if self._requested is not None and self.query.under_way:
            return None
        committed = self._write()
        now = time.monotonic()
        if self._requested is None and now >= self._due and self._past_earlier_runs():
            self._ends = self.output_ends()
            self._requested = time.time()
            self._due = max(self._due + self.every, now)
            self.query.request()
        return committed

    def _past_earlier_runs(self) -> bool:
        """Return whether the sources have passed what earlier runs delivered.

        A commit would be skipped before that. It is not even requested: each one writes a version
        of the state, and Spark deletes the version of the last commit when there are many newer
        ones.
        """
        log = self.delivery_log
        self._replaying = bool(log and not log.passed(offsets_of(self.query.read_position())))
        return not self._replaying

    def close(self) -> bool:
        """Pause the sources and write a last commit; return whether it covers every row."""
        try:
            self._ends = self.output_ends()
            self._requested = time.time()
            idle = self.query.close(CLOSE_SECONDS)
            wait_until(lambda: not self.query.under_way, CLOSE_SECONDS, "")
        except (BrokerError, TimeoutError):
            return False
        return self._write() is not None and idle

    def _write(self) -> dict[str, Any] | None:
        """Write the requested commit, if any; skip it until earlier runs' results are passed."""
        requested, self._requested = self._requested, None
        if requested is None or (result := self.query.result()) is None:
            return None
        state, phases = result.pop("state"), result.pop("phases")
        commit = MidEpochCommit.of({**result, "ends": self._ends})
        if self.delivery_log and not self.delivery_log.passed(commit.position):
            return None
        if _goes_back(self.position, commit.position):
            return None
        commit.write(self.checkpoint.path)
        began, self._began = self._began, requested
        rows, self.position = commit.rows_since(self.position), commit.position
        self.commits += 1
        return _described(began, requested, rows, phases, state)


def _goes_back(before: Offsets, now: Offsets) -> bool:
    """Return whether a position lies before another in any partition.

    >>> _goes_back({"in": {0: 5, 1: 5}}, {"in": {0: 9, 1: 4}})
    True
    """
    return any(
        now.get(topic, {}).get(partition, 0) < offset
        for topic, partitions in before.items()
        for partition, offset in partitions.items()
    )


def _described(
    began: float, ended: float, rows: int, phases: dict[str, int], state: dict[str, int]
) -> dict[str, Any]:
    """Describe the time up to a commit as an epoch, including its state."""
    counts = ("operators", "keys", "memory_bytes", "disk_bytes", "commit_ms")
    return {
        "began": began,
        "ended": ended,
        "rows": rows,
        "phases": {"addBatch": int((ended - began) * 1000), **phases},
        "state": {**dict.fromkeys(counts, 0), **state},
    }
