"""What the JVMs of a session count: rows, failed records, GC pauses, lag."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagre.jvm.gateway.handshake import companion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RUN_LENGTH = 36
"""The length of the id of a query's run, which is a UUID."""


def row_counts(spark: SparkSession, query: StreamingQuery | None = None) -> dict[str, int]:
    """Return what became of rows, executors included: their number by ``pipeline/outcome``.

    Args:
        spark: The session.
        query: Only the rows of this query.
    """
    counts: Counter[str] = Counter()
    for key, count in json.loads(companion(spark, "cluster.Cluster").rowCounts()).items():
        run, name = parse_run(key)
        if query is None or run == str(query.runId):
            counts[name] += count
    return dict(counts)


def upserted(spark: SparkSession, pipeline: str) -> int:
    """Return how many rows of a pipeline databases accepted."""
    return row_counts(spark).get(f"{pipeline}/upserted", 0)


def written(spark: SparkSession, pipeline: str) -> int:
    """Return how many rows of a pipeline Python sinks acknowledged."""
    return row_counts(spark).get(f"{pipeline}/written", 0)


def suspects_of(spark: SparkSession, query: StreamingQuery) -> list[tuple[str, int, int]]:
    """Return the records at which tasks of a query failed, as topic, partition and offset.

    They exclude outages, kills and intended failures (``on_error="fail"``).
    """
    api = companion(spark, "deadletter.DeadLetterApi")
    return [(str(topic), int(p), int(offset)) for topic, p, offset in api.suspects(query._jsq)]  # noqa: SLF001


def suspects(spark: SparkSession, pipeline: str | None = None) -> list[tuple[str, int, int]]:
    """Return the records at which tasks of the session's latest queries failed, oldest first."""
    return [
        (str(topic), int(partition), int(offset))
        for name, topic, partition, offset in companion(spark, "deadletter.SuspectRecords").all()
        if pipeline in (None, name)
    ]


@dataclass(frozen=True)
class JvmMetrics:
    """The current metrics of a session: of its JVM, with those of the executors added.

    Attributes:
        pauses: The number of GC pauses so far.
        paused_ms: Their total duration.
        longest_pause_ms: The longest pause since the last call.
        heap_mb: The heap in use.
        lag: Records not yet fetched, by ``topic/partition``, according to the consumers.
        consumed: Records that its consumers have fetched.
        waits: By ``topic/partition``: the number of records read, their total waiting time in the
            topic in ms, and the longest one since the last call.
        executors: On a cluster, the pauses and the heap of each JVM, by ``driver`` or the
            executor's id.
    """

    pauses: int
    paused_ms: int
    longest_pause_ms: int
    heap_mb: int
    lag: dict[str, int]
    consumed: int
    waits: dict[str, list[int]]
    executors: dict[str, dict[str, int]] = field(default_factory=dict)


def jvm_metrics(spark: SparkSession, query: StreamingQuery) -> JvmMetrics:
    """Return the metrics of the session, with the waits of a query, in one call."""
    run = str(query.runId)
    entries = json.loads(companion(spark, "cluster.Cluster").metrics(run))
    waits = ((*parse_run(key), wait) for key, wait in entries.pop("waits").items())
    return JvmMetrics(**entries, waits={at: wait for of, at, wait in waits if of == run})


def parse_run(name: str) -> tuple[str, str]:
    """Split a name of a report into the run of the query, which may be empty, and the rest.

    >>> parse_run("a7c1b6a0-5f8e-4c43-9f0c-1d2e3f405162:payments/0")
    ('a7c1b6a0-5f8e-4c43-9f0c-1d2e3f405162', 'payments/0')
    >>> parse_run("a:b/late")
    ('', 'a:b/late')
    """
    run, _, rest = name.partition(":")
    return (run, rest) if len(run) == RUN_LENGTH else ("", name)


def parse_partition(name: str) -> tuple[str, int]:
    """Parse the name of a partition.

    >>> parse_partition("payments/0")
    ('payments', 0)
    """
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)
