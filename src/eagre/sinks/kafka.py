"""Rows as Kafka records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.errors import SettingsError
from eagre.sources import SOURCE, Kafka

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LATENCY_OPTIONS = {"kafka.linger.ms": "0"}
"""Writer options of the latency profile: a producer that lingers adds its wait to every record."""


def writer(rows: DataFrame, sink: Kafka, brokers: str | None = None) -> DataStreamWriter:
    """Prepare the write of a stream to the sink's topic, in update mode, as real time needs it.

    >>> query = (  # doctest: +SKIP
    ...     writer(rows, Kafka("scores", key="card"), "127.0.0.1:9092")
    ...     .option("checkpointLocation", "checkpoints/scores")
    ...     .trigger(realTime="30 seconds")
    ...     .start()
    ... )
    """
    options = {**LATENCY_OPTIONS, **sink.connector_options(brokers)}
    if len(sink.topics) == 1:
        options["topic"] = sink.topics[0]
    return encode(rows, sink).writeStream.format("kafka").outputMode("update").options(**options)


def encode(rows: DataFrame, sink: Kafka) -> DataFrame:
    """Turn rows into the columns of Spark's Kafka sink: key, value, headers, topic."""
    columns = {"value": _value(rows, sink)}
    if sink.key:
        columns["key"] = _key(rows, sink.key)
    if "headers" in rows.columns:
        columns["headers"] = rows["headers"]
    if len(sink.topics) > 1:
        columns["topic"] = _topic(rows, sink)
    return rows.select(*(column.alias(name) for name, column in columns.items()))


def _value(rows: DataFrame, sink: Kafka) -> Column:
    from pyspark.sql import functions as F

    if sink.format != "json":
        _require(rows, "value", f"a sink of format {sink.format!r} writes the column 'value'")
        return rows["value"].cast("binary" if sink.format == "bytes" else "string")
    apart = {SOURCE, "headers", *(["topic"] if len(sink.topics) > 1 else [])}
    kept = [rows[f"`{name}`"] for name in rows.columns if name not in apart]
    return F.to_json(F.struct(*kept), {"ignoreNullFields": "false"})


def _key(rows: DataFrame, name: str) -> Column:
    _require(rows, name, f"the sink's key is the column {name!r}")
    column = rows[f"`{name}`"]
    return column if dict(rows.dtypes)[name] == "binary" else column.cast("string")


def _topic(rows: DataFrame, sink: Kafka) -> Column:
    from pyspark.sql import functions as F

    _require(rows, "topic", f"a sink with several topics ({sink.name}) is told which by a column")
    topic = rows["topic"]
    unknown = F.concat(
        F.lit("TOPIC_UNDECLARED: a row names the topic "),
        F.coalesce(topic, F.lit("null")),
        F.lit(f"; the sink declares {sink.name}."),
    )
    return F.when(topic.isin(*sink.topics), topic).otherwise(F.raise_error(unknown).cast("string"))


def _require(rows: DataFrame, name: str, why: str) -> None:
    if name not in rows.columns:
        raise SettingsError(
            "COLUMN_MISSING",
            f"{why}, and the pipeline's rows have only: {', '.join(rows.columns)}.",
            hint=f"add a column {name!r} in the pipeline function.",
        )
