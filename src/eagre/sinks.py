"""The write of a stream to a sink by its name of Eagre 0.1; use ``eg.write_stream``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.connectors import KafkaTopic, write_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from eagre.connectors import Sink


def writer(rows: DataFrame, sink: Sink, brokers: str | None = None) -> DataStreamWriter:
    """Prepare the write of a stream, as ``eg.write_stream`` does."""
    return write_stream(rows, sink.on(brokers) if isinstance(sink, KafkaTopic) else sink)
