"""Rows as Kafka records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.profile import clients_of
from eagre.sinks.size import fitting
from eagre.sources import SOURCE, Kafka

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

EXACTLY_ONCE_OPTIONS = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.delivery.timeout.ms": "3600000",
}
"""What the proof of exactly once rests on: a write that is given up while its batch is on its way
could be delivered all the same."""

IDENTITY = "_identity"
KEY_OF_RESULT = "_key_of_result"
"""The identity of results that ``Provenance.java`` does not know by their position."""
HEADER = "eagre"
"""The header with a record's identity: PIPELINE INCARNATION TOPIC/PARTITION/OFFSET/ORDINAL TIME."""
PROVENANCE_HEADER = "eagre-origin"
"""The header of records without an identity: TOPIC/PARTITION/OFFSET of the row that gave them, and
the TIME of that in milliseconds since 1970. The meter goes by it."""


@dataclass(frozen=True)
class ReplayFilter:
    """Skips the results of an exactly-once pipeline that earlier runs delivered.

    ``delivery.begin`` makes it.

    Attributes:
        prefix: The pipeline's id and the number of the run.
        delivered: What earlier runs delivered, in the JVM.
        dead_letters: The dead letters that they wrote, as text for the JVM.
    """

    prefix: str
    delivered: object
    dead_letters: str = ""


def writer(
    rows: DataFrame,
    sink: Kafka,
    brokers: str | None = None,
    replay_filter: ReplayFilter | None = None,
    aligned: Sequence[str] = (),
) -> DataStreamWriter:
    """Prepare the write of a stream to the sink's topic, in update mode, as real time needs it.

    >>> query = (  # doctest: +SKIP
    ...     writer(rows, Kafka("scores", key="card"), "127.0.0.1:9092")
    ...     .option("checkpointLocation", "checkpoints/scores")
    ...     .trigger(realTime="30 seconds")
    ...     .start()
    ... )
    """
    options = {**clients_of(rows.sparkSession).sink, **sink.connector_options(brokers)}
    if len(sink.topics) == 1:
        options["topic"] = sink.topics[0]
    if sink.delivery == "exactly-once":
        _require_durable(sink)
        options |= EXACTLY_ONCE_OPTIONS
        rows = _filtered(rows, replay_filter, aligned)
    records = fitting(encode(rows, sink), sink, brokers)
    return records.writeStream.format("kafka").outputMode("update").options(**options)


def encode(rows: DataFrame, sink: Kafka) -> DataFrame:
    """Turn rows into the columns of Spark's Kafka sink, with their provenance if they have it."""
    columns = {"value": _value(rows, sink)}
    if sink.key:
        columns["key"] = _key(rows, sink.key)
    headers = _headers(rows)
    if headers is not None:
        columns["headers"] = headers
    if len(sink.topics) > 1:
        columns["topic"] = _topic(rows, sink)
    if SOURCE in rows.columns:
        columns[SOURCE] = rows[SOURCE]
    return rows.select(*(column.alias(name) for name, column in columns.items()))


def _filtered(
    rows: DataFrame, replay_filter: ReplayFilter | None, aligned: Sequence[str]
) -> DataFrame:
    """Give each row its identity, and skip those delivered before.

    Without a replay filter the first row is refused: nothing would know what was delivered.
    """
    spark = rows.sparkSession
    rows = gateway.with_provenance(rows, aligned)
    replays = replay_filter or ReplayFilter("", gateway.nothing_delivered(spark))
    source = rows[KEY_OF_RESULT if KEY_OF_RESULT in rows.columns else SOURCE]
    identity = gateway.identity_column(spark, source, replays.prefix, replays.delivered)
    known = rows.withColumn(IDENTITY, identity).drop(KEY_OF_RESULT)
    return known.where(f"{IDENTITY} IS NOT NULL")


def _require_durable(sink: Kafka) -> None:
    for key, value in EXACTLY_ONCE_OPTIONS.items():
        stated = sink.options.get(key)
        if stated is not None and key != "kafka.delivery.timeout.ms" and stated.lower() != value:
            raise SettingsError(
                "EXACTLY_ONCE_PRODUCER",
                f"sink {sink.name!r} asks for exactly once and has {key}={stated}.",
                hint=f"leave it out: exactly once needs {value}.",
            )


def _headers(rows: DataFrame) -> Column | None:
    """The row's own headers, and its identity or else its provenance behind them."""
    from pyspark.sql import functions as F

    own = rows["headers"] if "headers" in rows.columns else None
    if IDENTITY in rows.columns:
        name, value = HEADER, rows[IDENTITY]
    elif has_provenance(rows):
        name, value = PROVENANCE_HEADER, _provenance(rows[SOURCE])
    else:
        return own
    added = F.array(F.struct(F.lit(name).alias("key"), value.alias("value")))
    if own is None:
        return added
    ours = (HEADER, PROVENANCE_HEADER)
    kept = F.filter(F.coalesce(own, F.array()), lambda header: ~header["key"].isin(*ours))
    return F.concat(kept, added)


def has_provenance(rows: DataFrame) -> bool:
    """Tell whether rows still have ``_source`` as the source gave it."""
    from pyspark.sql.types import StructType, TimestampType

    kind = rows.schema[SOURCE].dataType if SOURCE in rows.columns else None
    if not isinstance(kind, StructType):
        return False
    wanted = {"topic", "partition", "offset", "timestamp"}
    return wanted <= set(kind.names) and isinstance(kind["timestamp"].dataType, TimestampType)


def _provenance(source: Column) -> Column:
    from pyspark.sql import functions as F

    place = F.concat_ws("/", source["topic"], source["partition"], source["offset"])
    time = F.unix_millis(source["timestamp"]).cast("string")
    return F.encode(F.concat(place, F.lit(" "), time), "UTF-8")


def _value(rows: DataFrame, sink: Kafka) -> Column:
    from pyspark.sql import functions as F

    if sink.format != "json":
        _require(rows, "value", f"a sink of format {sink.format!r} writes the column 'value'")
        return rows["value"].cast("binary" if sink.format == "bytes" else "string")
    apart = {SOURCE, IDENTITY, "headers", *(["topic"] if len(sink.topics) > 1 else [])}
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
