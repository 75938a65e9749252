"""Sinks: Kafka topics and databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.sinks import kafka
from eagre.sinks.database import Database
from eagre.sinks.kafka import ReplayFilter, encode
from eagre.sinks.postgres import Postgres
from eagre.sinks.redis import Redis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from eagre.sources import Kafka

__all__ = ["Database", "Postgres", "Redis", "ReplayFilter", "encode", "writer"]


def writer(
    rows: DataFrame,
    sink: Kafka | Database,
    brokers: str | None = None,
    *,
    replay_filter: ReplayFilter | None = None,
    aligned: Sequence[str] = (),
    topic_ids: Mapping[str, str] | None = None,
) -> DataStreamWriter:
    """Prepare the write of a stream to a sink, in the update mode that real time requires.

    >>> query = (  # doctest: +SKIP
    ...     writer(rows, Kafka("scores", key="card"), "127.0.0.1:9092")
    ...     .option("checkpointLocation", "checkpoints/scores")
    ...     .trigger(realTime="30 seconds")
    ...     .start()
    ... )

    Args:
        rows: The stream.
        sink: A topic or a database.
        brokers: The cluster of the topic. Default: the declared one.
        replay_filter: For exactly once, skips results that earlier runs delivered.
        aligned: The columns that determine the source's partitions.
        topic_ids: The ids of the source topics, if known. With them a database sink recognizes a
            topic that was deleted and created again under the same name.
    """
    if isinstance(sink, Database):
        return sink.writer(rows, topic_ids)
    return kafka.writer(rows, sink, brokers, replay_filter, aligned)
