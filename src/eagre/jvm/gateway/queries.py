"""Running queries: drain, mid-epoch commits, plans of epochs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.jvm.gateway.handshake import companion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PLANNER_WARMUPS = 40
"""How often the planner runs in advance, so that its code is compiled at the epoch boundary."""


def drain(spark: SparkSession, query: StreamingQuery) -> None:
    """Finish and commit the current epoch or micro-batch, and do not start another."""
    companion(spark, "spark.SparkInternals").drain(_java_query(query))


def cache_plans(spark: SparkSession, query: StreamingQuery) -> None:
    """Reuse the plan of the previous epoch: only the start offsets of its sources change."""
    companion(spark, "plan.PlanCache").install(_java_query(query))


def warm_up_planner(
    spark: SparkSession, query: StreamingQuery, times: int = PLANNER_WARMUPS
) -> Any:  # noqa: ANN401  (a py4j object)
    """Plan the current epoch repeatedly in the background, for faster epoch boundaries."""
    return companion(spark, "plan.PlannerWarmup").start(_java_query(query), times)


def flush_producers(spark: SparkSession, client_id: str) -> None:
    """Deliver what an earlier run of a query left in its producers, here and on the executors."""
    companion(spark, "cluster.Cluster").deliver(client_id)


def await_tasks(spark: SparkSession, query: StreamingQuery, wait_seconds: float) -> bool:
    """Wait for the tasks of a stopped query: until they have ended, they may read and write."""
    wait_ms = int(wait_seconds * 1000)
    return bool(companion(spark, "CommitApi").awaitTasks(str(query.runId), wait_ms))


def repartition(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Distribute the state of a stopped query over another number of partitions."""
    manager = spark._streamingCheckpointManager  # noqa: SLF001  (experimental in Spark 4.3)
    manager.repartition(checkpoint, partitions)


class MidEpochCommits:
    """Commits a running query in the middle of its epoch."""

    def __init__(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        *,
        pauses: bool,
        patience: float,
        client_id: str,
    ) -> None:
        api = companion(spark, "CommitApi")
        self._java = api.start(_java_query(query), pauses, int(patience * 1000), client_id)

    def request(self) -> None:
        """Request a commit; it completes when the producers have sent their buffered records."""
        self._java.request()

    def close(self, wait_seconds: float) -> bool:
        """Pause the sources and commit the rows in flight; return whether that was in time."""
        return bool(self._java.close(int(wait_seconds * 1000)))

    def release(self, wait_seconds: float) -> bool:
        """Forget the query after it has ended; return whether its tasks ended in time."""
        return bool(self._java.release(int(wait_seconds * 1000)))

    @property
    def under_way(self) -> bool:
        """Whether a commit was requested and is not complete yet."""
        return bool(self._java.underWay())

    def read_position(self) -> dict[str, Any]:
        """Return how far the sources have read."""
        position = str(self._java.readPosition())
        return json.loads(position) if position else {}

    @property
    def waits_for(self) -> str:
        """What the requested commit waits for."""
        return str(self._java.waitsFor())

    @property
    def broken(self) -> str:
        """Why the run can have no more commits; empty while it can."""
        return str(self._java.broken())

    def result(self) -> dict[str, Any] | None:
        """Return the requested commit; None if there is none."""
        result = str(self._java.result())
        return json.loads(result) if result else None


def ended(spark: SparkSession, query: StreamingQuery) -> bool:
    """Return whether the query's thread has ended; ``isActive`` is false once a drain starts."""
    return bool(companion(spark, "spark.SparkInternals").ended(_java_query(query)))


def has_run(spark: SparkSession, query: StreamingQuery) -> bool:
    """Return whether a query has run a job: a query that fails in planning has not."""
    return bool(spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId)))


def physical_plan(spark: SparkSession, query: StreamingQuery) -> list[dict[str, Any]]:
    """Return the running operators, inputs first; empty before the first epoch."""
    return list(
        json.loads(companion(spark, "spark.SparkInternals").physicalPlan(_java_query(query)))
    )


@dataclass(frozen=True)
class RunningQuery:
    """A query that runs in a session."""

    name: str
    real_time: bool
    checkpoint: str


def running_queries(spark: SparkSession) -> tuple[RunningQuery, ...]:
    """Return the queries that run in a session."""
    internals = companion(spark, "spark.SparkInternals")
    return tuple(
        RunningQuery(
            query.name or str(query.id),
            bool(internals.realTime(_java_query(query))),
            re.sub(r"^file:/+", "/", str(internals.checkpoint(_java_query(query)))),
        )
        for query in spark.streams.active
    )


def _java_query(query: StreamingQuery) -> Any:  # noqa: ANN401  (a py4j object)
    return query._jsq  # noqa: SLF001  (PySpark has no public access to the Java query)
