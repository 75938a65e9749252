"""What the JVMs of a session count: rows, failed records, GC pauses, lag."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagre.jvm.gateway.handshake import companion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def row_counts(spark: SparkSession) -> dict[str, int]:
    """Return what became of rows, executors included: their number by ``pipeline/outcome``."""
    return dict(json.loads(companion(spark, "cluster.Cluster").rowCounts()))


def upserted(spark: SparkSession, pipeline: str) -> int:
    """Return how many rows of a pipeline databases accepted."""
    return row_counts(spark).get(f"{pipeline}/upserted", 0)


def written(spark: SparkSession, pipeline: str) -> int:
    """Return how many rows of a pipeline Python sinks acknowledged."""
    return row_counts(spark).get(f"{pipeline}/written", 0)


def suspects(spark: SparkSession, pipeline: str | None = None) -> list[tuple[str, int, int]]:
    """Return the records at which tasks failed, as topic, partition and offset, oldest first.

    They exclude outages, kills and intended failures (``on_error="fail"``).
    """
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


def jvm_metrics(spark: SparkSession) -> JvmMetrics:
    """Return the metrics of the session, in one call."""
    return JvmMetrics(**json.loads(companion(spark, "cluster.Cluster").metrics()))


def parse_partition(name: str) -> tuple[str, int]:
    """Parse the name of a partition.

    >>> parse_partition("payments/0")
    ('payments', 0)
    """
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)
