"""The Kafka source: reads records as rows."""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from eagre.config import spark_interval, timestamp_ms
from eagre.connectors.base import SOURCE, Mode, QueryContext, Source
from eagre.connectors.error_policy import policy
from eagre.connectors.kafka.topic import KafkaTopic
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.profile import clients_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

PARSED = "_parsed"
METADATA = ("key", "headers", "topic", "partition", "offset", "timestamp")

_LIMITS = frozenset(
    {
        "minpartitions",
        "maxoffsetspertrigger",
        "minoffsetspertrigger",
        "maxtriggerdelay",
        "endingtimestamp",
    }
)


def refused_in_real_time(option: str) -> bool:
    """Return whether real time rejects a reader option; Eagre ignores such options there.

    >>> refused_in_real_time("maxOffsetsPerTrigger"), refused_in_real_time("subscribe")
    (True, False)
    """
    return option.lower() in _LIMITS


@dataclass(frozen=True)
class KafkaSource(KafkaTopic, Source):
    """A Kafka topic, or several, to read from.

    >>> payments = KafkaSource("payments", schema="card STRING, amount DOUBLE")
    >>> payments.topics
    ('payments',)

    A value that cannot be parsed, even because of one field of the wrong type, produces no row;
    ``on_error`` decides what happens to it. It also has the attributes of ``KafkaTopic``.

    Attributes:
        headers: Read the record's headers into a ``headers`` column.
        event_time: The timestamp column of the watermark.
        watermark: The watermark's delay, such as ``"10 seconds"``. Requires ``event_time``.
        starting: Where a new checkpoint starts: ``earliest``, ``latest``, or an ISO 8601 time.
        partitioned_by: The columns that determine the partition: rows with equal values are in the
            same partition. Exactly once over keyed state requires it.
    """

    _: KW_ONLY
    headers: bool = False
    event_time: str | None = None
    watermark: str | None = None
    starting: str | None = None
    partitioned_by: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.watermark) != bool(self.event_time):
            raise SettingsError(
                "WATERMARK_AND_EVENT_TIME",
                f"topic {self.name!r} must have both an event_time and a watermark, or neither; it "
                f"has {self.event_time!r} and {self.watermark!r}.",
                hint="set the timestamp column and the delay: "
                "event_time='at', watermark='10 seconds'.",
            )
        starts = sorted(key for key in self.options if key.lower().startswith("starting"))
        if starts:
            raise SettingsError(
                "START_AS_OPTION",
                f"topic {self.name!r} sets its start with the option {starts[0]}.",
                hint="use starting='earliest', 'latest' or an ISO 8601 time, or --from.",
            )

    @property
    def aligned(self) -> tuple[str, ...]:
        """The columns of ``partitioned_by`` as a tuple."""
        columns = self.partitioned_by
        return (columns,) if isinstance(columns, str) else tuple(columns)

    def read(
        self, spark: SparkSession, brokers: str | None = None, mode: Mode = "real-time"
    ) -> DataFrame:
        """Read the topic outside a pipeline: the schema's columns, and ``_source``.

        Args:
            spark: A session from ``eg.session()`` or ``eg.configure``.
            brokers: The cluster. Default: the declared one.
            mode: The mode; in real time, options that it rejects are ignored.
        """
        source = self.on(brokers)
        return source.read_stream(spark, QueryContext(mode=mode, dead_letters=source.clusters()))

    def clusters(self) -> dict[str, dict[str, str]]:
        """Return the client settings for the dead letters of each topic; they may be secret."""
        return dict.fromkeys(self.topics, self.client_settings())

    def read_stream(self, spark: SparkSession, query: QueryContext) -> DataFrame:
        """Return the stream of rows: the schema's columns, and ``_source``."""
        options = {**clients_of(spark).source, **self.reader_options(query.mode)}
        reader = spark.readStream.format("kafka").options(**options)
        if query.start is not None:
            start = {topic: query.start[topic] for topic in self.topics}
            reader = reader.option("startingOffsets", json.dumps(start))
        rows = self._parsed(reader.load(), query).select(*self._columns())
        if self.event_time and self.watermark:
            return rows.withWatermark(self.event_time, spark_interval(self.watermark))
        return rows

    def reader_options(self, mode: Mode = "real-time") -> dict[str, str]:
        """Return the options of Spark's Kafka source for a mode."""
        options = {
            **self._starting_options(),
            **self.connector_options(),
            "includeHeaders": "true",
            "subscribe": ",".join(self.topics),
        }
        if mode != "real-time":
            return options
        return {key: v for key, v in options.items() if not refused_in_real_time(key)}

    def _starting_options(self) -> dict[str, str]:
        start = self.starting or "latest"
        if start in ("earliest", "latest"):
            return {"startingOffsets": start}
        return {"startingTimestamp": str(timestamp_ms(start))}

    def _columns(self) -> list[Column]:
        from pyspark.sql import functions as F

        names = self.parsed_schema().names
        columns = [F.col(PARSED).getField(name).alias(name) for name in names]
        if self.key and (self.key not in names or self.value_format.schema):
            columns.append(F.col("key").cast("string").alias(self.key))
        if self.headers:
            columns.append(F.col("headers"))
        provenance = F.struct("topic", "partition", "offset", "timestamp")
        return [*columns, provenance.alias(SOURCE)]

    def _parsed(self, records: DataFrame, query: QueryContext) -> DataFrame:
        """Parse each value once and keep the valid ones; ``on_error`` handles the others."""
        from pyspark.sql import functions as F

        rules = {
            **policy(self.on_error, query),
            "format": self.format,
            "quarantine": sorted(at for at in query.quarantine if at[0] in self.topics),
        }
        parsed = self.value_format.parse(F.col("value"), self.parsed_schema())
        record = [parsed, *map(F.col, ["value", *METADATA])]
        parsed = gateway.parsed(records.sparkSession, json.dumps(rules), record)
        return records.select(parsed.alias(PARSED), *METADATA).where(F.col(PARSED).isNotNull())
