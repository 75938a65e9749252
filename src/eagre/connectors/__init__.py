"""Connectors: sources, sinks and formats, behind one seam.

A connector is a small class with stated ``Capabilities``. ``register`` adds one; the rest of Eagre
asks for capabilities and never for a class. ``docs/how-to/write-a-connector.md`` shows how to add
your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagre.connectors.base import (
    MODES,
    SOURCE,
    WATERMARK,
    Capabilities,
    Delivery,
    Mode,
    QueryContext,
    ReplayFilter,
    Sink,
    Source,
)
from eagre.connectors.formats import Bytes, Format, Json, String
from eagre.connectors.kafka import Kafka, KafkaSink, KafkaSource, KafkaTopic
from eagre.connectors.postgres import Postgres
from eagre.connectors.redis import Redis
from eagre.connectors.registry import (
    as_sink,
    format_named,
    formats,
    register,
    register_adapter,
    sinks,
    sources,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = [
    "MODES",
    "SOURCE",
    "WATERMARK",
    "Capabilities",
    "Delivery",
    "Format",
    "Kafka",
    "KafkaSink",
    "KafkaSource",
    "KafkaTopic",
    "Mode",
    "Postgres",
    "QueryContext",
    "Redis",
    "ReplayFilter",
    "Sink",
    "Source",
    "as_sink",
    "format_named",
    "formats",
    "read_stream",
    "register",
    "register_adapter",
    "sinks",
    "sources",
    "write_stream",
]

for _built_in in (Json, String, Bytes, Kafka, KafkaSource, KafkaSink, Postgres, Redis):
    register(_built_in)


def read_stream(spark: SparkSession, source: Source, *, mode: Mode = "real-time") -> DataFrame:
    """Read a source as a stream of rows, outside a pipeline.

    >>> rows = read_stream(spark, payments)  # doctest: +SKIP

    Args:
        spark: A session from ``eg.session()`` or ``eg.configure``.
        source: The source.
        mode: The mode of the query.
    """
    source.require_mode(mode)
    clusters = source.clusters() if isinstance(source, KafkaSource) else {}
    return source.read_stream(spark, QueryContext(mode=mode, dead_letters=clusters))


def write_stream(rows: DataFrame, sink: Any, *, mode: Mode = "real-time") -> DataStreamWriter:  # noqa: ANN401
    """Prepare the write of a stream to a sink, outside a pipeline.

    >>> query = (  # doctest: +SKIP
    ...     write_stream(rows, Kafka("scores", key="card", brokers="127.0.0.1:9092"))
    ...     .option("checkpointLocation", "checkpoints/scores")
    ...     .trigger(realTime="30 seconds")
    ...     .start()
    ... )

    Args:
        rows: The stream.
        sink: The sink: a connector, an ``eg.Sink``, or what PySpark's ``foreach`` accepts.
        mode: The mode of the query.
    """
    connector = as_sink(sink)
    connector.require_mode(mode)
    return connector.write_stream(rows, QueryContext(mode=mode))
