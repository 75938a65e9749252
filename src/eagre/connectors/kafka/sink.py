"""The Kafka sink: encodes rows as Kafka records."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from eagre.connectors.base import SOURCE, Delivery, QueryContext, ReplayFilter, Sink
from eagre.connectors.kafka.size_limit import fitting
from eagre.connectors.kafka.topic import KafkaTopic
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.profile import clients_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

EXACTLY_ONCE_OPTIONS = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.delivery.timeout.ms": "3600000",
}
"""Exactly once depends on these: a write that times out while its batch is in flight could still be
delivered."""

IDENTITY = "_identity"
KEY_OF_RESULT = "_key_of_result"
"""The identity of results that ``Provenance.java`` cannot identify by position."""
HEADER = "eagre"
"""The header with a record's identity: PIPELINE INCARNATION TOPIC/PARTITION/OFFSET/ORDINAL TIME."""
PROVENANCE_HEADER = "eagre-origin"
"""The header of records without an identity: TOPIC/PARTITION/OFFSET of their source record, and its
TIME in milliseconds since 1970. The latency meter uses it."""


@dataclass(frozen=True)
class KafkaSink(KafkaTopic, Sink):
    """A Kafka topic, or several, to write to.

    >>> scores = KafkaSink("scores", key="card", delivery="exactly-once")
    >>> scores.guarantee
    'exactly-once'

    With several topics, each row goes to the topic that its ``topic`` column names. A ``headers``
    column becomes the record's headers. It also has the attributes of ``KafkaTopic``.

    Attributes:
        delivery: ``at-least-once``, where a failure repeats results since the last commit, or
            ``exactly-once`` (docs/explanation/exactly-once.md).
        fence: ``in-band`` also writes fence records into an exactly-once sink, for readers with
            ``eagre.reader``.
    """

    _: KW_ONLY
    delivery: Delivery = "at-least-once"
    fence: Literal["in-band"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delivery not in self.capabilities.deliveries or self.fence not in (None, "in-band"):
            raise SettingsError(
                "DELIVERY_UNKNOWN",
                f"topic {self.name!r} must be at-least-once or exactly-once, with fence='in-band' "
                f"or none, not {self.delivery!r} with {self.fence!r}.",
            )

    @property
    def guarantee(self) -> str:
        """The declared delivery guarantee."""
        return self.delivery

    def client_id(self, pipeline: str) -> str:
        """Return the client id of its producers: Kafka's logs, quotas and metrics name it."""
        return self.option("kafka.client.id", f"eagre-{pipeline}")

    def write_stream(self, rows: DataFrame, query: QueryContext) -> DataStreamWriter:
        """Prepare the write of a stream, in the update mode that real time requires."""
        options = {**clients_of(rows.sparkSession).sink, **self.connector_options()}
        options = {key: v for key, v in options.items() if key.lower() != "kafka.client.id"}
        options["kafka.client.id"] = self.client_id(query.pipeline)
        if len(self.topics) == 1:
            options["topic"] = self.topics[0]
        if self.delivery == "exactly-once":
            _require_durable(self)
            options |= EXACTLY_ONCE_OPTIONS
            rows = _filtered(rows, query.replay_filter, query.partitioned_by)
        records = fitting(encode(rows, self), self, query)
        return records.writeStream.format("kafka").outputMode("update").options(**options)


def encode(rows: DataFrame, sink: KafkaSink) -> DataFrame:
    """Convert rows to the columns of Spark's Kafka sink, with their provenance if available."""
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
    """Add an identity to each row, and skip rows that earlier runs delivered.

    Without a replay filter the first row fails, because the delivered results are unknown.
    """
    spark = rows.sparkSession
    rows = gateway.with_provenance(rows, aligned)
    replays = replay_filter or ReplayFilter("", gateway.nothing_delivered(spark))
    source = rows[KEY_OF_RESULT if KEY_OF_RESULT in rows.columns else SOURCE]
    identity = gateway.identity_column(spark, source, replays.prefix, replays.delivered)
    identified = rows.withColumn(IDENTITY, identity).drop(KEY_OF_RESULT)
    return identified.where(f"{IDENTITY} IS NOT NULL")


def _require_durable(sink: KafkaSink) -> None:
    for key, value in EXACTLY_ONCE_OPTIONS.items():
        configured = sink.option(key, value)
        if key != "kafka.delivery.timeout.ms" and configured.lower() != value:
            raise SettingsError(
                "EXACTLY_ONCE_PRODUCER",
                f"sink {sink.name!r} is exactly-once and sets {key}={configured}.",
                hint=f"remove the option: exactly once requires {value}.",
            )


def _headers(rows: DataFrame) -> Column | None:
    """Return the user's headers, followed by the row's identity or provenance."""
    from pyspark.sql import functions as F

    headers = rows["headers"] if "headers" in rows.columns else None
    if IDENTITY in rows.columns:
        name, value = HEADER, rows[IDENTITY]
    elif has_provenance(rows):
        name, value = PROVENANCE_HEADER, _provenance(rows[SOURCE])
    else:
        return headers
    added = F.array(F.struct(F.lit(name).alias("key"), value.alias("value")))
    if headers is None:
        return added
    reserved = (HEADER, PROVENANCE_HEADER)
    retained = F.filter(F.coalesce(headers, F.array()), lambda h: ~h["key"].isin(*reserved))
    return F.concat(retained, added)


def has_provenance(rows: DataFrame) -> bool:
    """Return whether rows still have the source's ``_source`` column."""
    from pyspark.sql.types import StructType, TimestampType

    kind = rows.schema[SOURCE].dataType if SOURCE in rows.columns else None
    if not isinstance(kind, StructType):
        return False
    fields = {"topic", "partition", "offset", "timestamp"}
    return fields <= set(kind.names) and isinstance(kind["timestamp"].dataType, TimestampType)


def _provenance(source: Column) -> Column:
    from pyspark.sql import functions as F

    position = F.concat_ws("/", source["topic"], source["partition"], source["offset"])
    time = F.unix_millis(source["timestamp"]).cast("string")
    return F.encode(F.concat(position, F.lit(" "), time), "UTF-8")


def _value(rows: DataFrame, sink: KafkaSink) -> Column:
    metadata = {SOURCE, IDENTITY, "headers", *(["topic"] if len(sink.topics) > 1 else [])}
    columns = [name for name in rows.columns if name not in metadata]
    return sink.value_format.encode(rows, columns)


def _key(rows: DataFrame, name: str) -> Column:
    _require(rows, name, f"the sink's key is the column {name!r}")
    column = rows[f"`{name}`"]
    return column if dict(rows.dtypes)[name] == "binary" else column.cast("string")


def _topic(rows: DataFrame, sink: KafkaSink) -> Column:
    from pyspark.sql import functions as F

    _require(rows, "topic", f"a sink with several topics ({sink.name}) needs the column 'topic'")
    topic = rows["topic"]
    unknown = F.concat(
        F.lit("TOPIC_UNDECLARED: a row has the topic "),
        F.coalesce(topic, F.lit("null")),
        F.lit(f"; the sink declares {sink.name}."),
    )
    return F.when(topic.isin(*sink.topics), topic).otherwise(F.raise_error(unknown).cast("string"))


def _require(rows: DataFrame, name: str, why: str) -> None:
    if name not in rows.columns:
        raise SettingsError(
            "COLUMN_MISSING",
            f"{why}, and the pipeline returns only: {', '.join(rows.columns)}.",
            hint=f"add a column {name!r} in the pipeline function.",
        )
