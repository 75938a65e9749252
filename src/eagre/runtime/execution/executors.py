"""The executors of a cluster: enough slots for a query, and a new start when one is lost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagre.config import counted
from eagre.errors import ClusterError, EagreError, PipelineFailed
from eagre.jvm import gateway
from eagre.runtime.watchdog import CHECK_SECONDS
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

LOST = "EXECUTOR_LOST"
LOSSES_IN_A_ROW = 3
"""After so many losses, each within ``STEADY_SECONDS``, the driver is started again."""
STEADY_SECONDS = 60.0
NOTICED_SECONDS = 8.0
"""Tasks that were connected to a lost executor fail before Spark says that it is lost: Spark waits
for 5 s, in case its worker has the reason."""
SLOTS_SECONDS = 60.0
READER_SECONDS = 30.0
"""The tasks of a new executor begin when it has loaded and compiled Spark."""


@dataclass
class Executors:
    """The executors of a session, over all runs of its query.

    Attributes:
        spark: The session.
        say: Receives messages.
        needed: The slots that the query needs; None if that is not known.
    """

    spark: SparkSession
    say: Callable[[str], None]
    needed: int | None = None
    _known: int = 0
    _losses: int = 0
    _began: float = 0.0

    def prepare(self) -> None:
        """Wait until the query can start: lost executors have ended, and there are enough others.

        With too few slots Spark fails a query with a shuffle, and skips partitions of the others.

        Raises:
            ClusterError: The cluster does not provide them.
        """
        self.await_silence()
        needed = self.needed
        if needed is not None and self._short_of(needed):
            self.say(f"waiting for {counted(needed, 'task slot')} of the cluster")
            try:
                wait_until(lambda: not self._short_of(needed), SLOTS_SECONDS, "")
            except TimeoutError:
                raise self.full(f"needs {counted(needed, 'task slot')}") from None
        self._known = len(gateway.lost_executors(self.spark))
        self._began = time.monotonic()

    def await_silence(self) -> None:
        """Wait until lost executors have ended: Spark may only have lost sight of them."""
        silence = gateway.silence_seconds(self.spark)
        if silence:
            self.say(f"waiting {silence:.0f} s until the lost executor has ended for certain")
            time.sleep(silence)

    def full(self, needs: str) -> ClusterError:
        """Describe a cluster that has too few slots for the query."""
        given = gateway.executor_slots(self.spark) or 0
        return ClusterError(
            "CLUSTER_FULL",
            f"the query {needs}, and the cluster has given {counted(given, 'slot')} to this "
            "application.",
            hint="stop another application, add workers, or ask for more (spark.cores.max, "
            "spark.executor.cores, spark.executor.memory); its web UI shows who uses what.",
        )

    def _short_of(self, needed: int) -> bool:
        slots = gateway.executor_slots(self.spark)
        return slots is not None and slots < needed

    def lost(self, *, wait: bool = False) -> PipelineFailed | None:
        """Return a failure if an executor was lost since the query started."""
        deadline = time.monotonic() + NOTICED_SECONDS
        while not (lost := gateway.lost_executors(self.spark)[self._known :]):
            if not wait or time.monotonic() > deadline or not self.on_cluster:
                return None
            time.sleep(0.1)
        return PipelineFailed(
            LOST,
            "; ".join(lost) + ".",
            hint="the log of the executor has the reason; often it needs more memory "
            "(spark.executor.memory).",
        )

    @property
    def reader_seconds(self) -> float:
        """How long a task may need to begin to read."""
        return READER_SECONDS if self.on_cluster else CHECK_SECONDS

    @property
    def on_cluster(self) -> bool:
        """Whether tasks run on executors."""
        return gateway.executor_slots(self.spark) is not None

    def may_start_again(self, failure: EagreError) -> bool:
        """Return whether to start the query again in this session after a failure."""
        if failure.code != LOST:
            return False
        steady = time.monotonic() - self._began > STEADY_SECONDS
        self._losses = 1 if steady else self._losses + 1
        return self._losses <= LOSSES_IN_A_ROW
