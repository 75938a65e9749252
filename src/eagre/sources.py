"""Kafka topics: the declaration of sources and sinks, and the reader."""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Literal, cast, get_args

from eagre.broker.client import Client, is_access
from eagre.config import spark_interval, timestamp_ms
from eagre.error_policy import OnError, check_on_error, policy
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.profile import clients_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from eagre.broker.topics import Offsets
    from eagre.error_policy import Position

Format = Literal["json", "string", "bytes"]
Mode = Literal["real-time", "micro-batch", "available-now"]
Delivery = Literal["at-least-once", "exactly-once"]

SOURCE = "_source"
"""The column with a row's provenance: topic, partition, offset, timestamp."""

WATERMARK = "spark.watermarkDelayMs"
"""The metadata key of a watermark's column in Spark."""

CLIENT_OPTIONS = {"kafka.enable.metrics.push": "false"}
"""For sources and sinks, in every profile. With metrics push enabled, a client checks with every
request whether it is due, which costs 4 % of a stateless pipeline's CPU time in the JVM."""

PARSED = "_parsed"

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
class Kafka:
    """A Kafka topic, or several, to read from or write to.

    >>> payments = Kafka("payments", schema="card STRING, amount DOUBLE")
    >>> payments.topics
    ('payments',)

    Attributes:
        topic: A topic, or several. A sink with several topics sends each row to the topic that its
            ``topic`` column names.
        schema: The columns of a JSON value, as DDL or StructType.
        format: ``json``; or ``string`` or ``bytes`` for a single, unparsed ``value`` column.
        key: For a sink, the column that becomes the record's key. For a source, the column that
            receives the record's key, unless the schema contains it.
        headers: Read the record's headers into a ``headers`` column. A sink writes this column
            if the rows have it.
        on_error: What to do with a record that cannot be parsed, or that is too large for a sink:
            ``dead-letter`` (send it to the topic ``SOURCE.dlq``), ``drop`` (count and log it) or
            ``fail`` (stop the query).
        event_time: The timestamp column of the watermark.
        watermark: The watermark's delay, such as ``"10 seconds"``. Requires ``event_time``.
        starting: Where a new checkpoint starts: ``earliest``, ``latest``, or an ISO 8601 time.
        partitions: The number of partitions if Eagre creates the topic.
        create: Whether Eagre may create the topic.
        brokers: ``host:port`` of its cluster; ``eagre run --brokers`` overrides it.
        delivery: For a sink, ``at-least-once``, where a failure repeats results since the last
            commit, or ``exactly-once`` (docs/explanation/exactly-once.md).
        fence: ``in-band`` also writes fence records into an exactly-once sink, for readers with
            ``eagre.reader``.
        partitioned_by: For a source, the columns that determine the partition: rows with equal
            values are in the same partition. Exactly once over keyed state requires it.
        config: A Kafka client properties file with the settings of the cluster, such as
            ``security.protocol``. Default: the file in ``EAGRE_KAFKA_CONFIG``.
        options: Options of Spark's Kafka connector, including ``kafka.*`` client settings.
    """

    topic: str | Sequence[str]
    _: KW_ONLY
    schema: str | StructType | None = None
    format: Format = "json"
    key: str | None = None
    headers: bool = False
    on_error: OnError = "dead-letter"
    event_time: str | None = None
    watermark: str | None = None
    starting: str | None = None
    partitions: int = 1
    create: bool = True
    brokers: str | None = None
    config: Path | str | None = None
    delivery: Delivery = "at-least-once"
    fence: Literal["in-band"] | None = None
    partitioned_by: str | Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.topics or not all(self.topics):
            raise SettingsError("TOPIC_MISSING", "eg.Kafka needs the name of a topic.")
        if self.format not in get_args(Format):
            raise SettingsError(
                "FORMAT_UNKNOWN",
                f"topic {self.name!r} must be json, string or bytes, not {self.format!r}.",
            )
        check_on_error(self.on_error)
        if bool(self.watermark) != bool(self.event_time):
            raise SettingsError(
                "WATERMARK_AND_EVENT_TIME",
                f"topic {self.name!r} must have both an event_time and a watermark, or neither; it "
                f"has {self.event_time!r} and {self.watermark!r}.",
                hint="set the timestamp column and the delay: "
                "event_time='at', watermark='10 seconds'.",
            )
        if self.delivery not in get_args(Delivery) or self.fence not in (None, "in-band"):
            raise SettingsError(
                "DELIVERY_UNKNOWN",
                f"topic {self.name!r} must be at-least-once or exactly-once, with fence='in-band' "
                f"or none, not {self.delivery!r} with {self.fence!r}.",
            )
        starts = sorted(key for key in self.options if key.lower().startswith("starting"))
        if starts:
            raise SettingsError(
                "START_AS_OPTION",
                f"topic {self.name!r} sets its start with the option {starts[0]}.",
                hint="use starting='earliest', 'latest' or an ISO 8601 time, or --from.",
            )

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics as a tuple."""
        return (self.topic,) if isinstance(self.topic, str) else tuple(self.topic)

    @property
    def aligned(self) -> tuple[str, ...]:
        """The columns of ``partitioned_by`` as a tuple."""
        columns = self.partitioned_by
        return (columns,) if isinstance(columns, str) else tuple(columns)

    @property
    def name(self) -> str:
        """The topics as one string, for messages."""
        return ",".join(self.topics)

    @property
    def stated_brokers(self) -> str | None:
        """The brokers that the declaration names, if any."""
        return self.brokers or self.options.get("kafka.bootstrap.servers")

    def read(
        self,
        spark: SparkSession,
        brokers: str | None = None,
        mode: Mode = "real-time",
        start: Offsets | None = None,
        quarantine: Collection[Position] = (),
    ) -> DataFrame:
        """Read the topic as a stream of rows: the schema's columns, and ``_source``.

        A value that cannot be parsed, even because of one field of the wrong type, produces no row;
        ``on_error`` decides what happens to it.

        Args:
            spark: A session from ``eg.session()`` or ``eg.configure``.
            brokers: The cluster. Default: the declared one.
            mode: The mode; in real time, options that it rejects are ignored.
            start: The start offsets of a new checkpoint. Default: ``starting``.
            quarantine: Records that become dead letters without being parsed.
        """
        options = {**clients_of(spark).source, **self.reader_options(brokers, mode)}
        reader = spark.readStream.format("kafka").options(**options)
        if start is not None:
            reader = reader.option("startingOffsets", json.dumps(start))
        rows = self._accepted(reader.load(), brokers, quarantine).select(*self._columns())
        if self.event_time and self.watermark:
            return rows.withWatermark(self.event_time, spark_interval(self.watermark))
        return rows

    def reader_options(
        self, brokers: str | None = None, mode: Mode = "real-time"
    ) -> dict[str, str]:
        """Return the options of Spark's Kafka source for a mode."""
        options = {
            **self._starting_options(),
            **self.connector_options(brokers),
            "includeHeaders": "true",
            "subscribe": ",".join(self.topics),
        }
        if mode != "real-time":
            return options
        return {key: v for key, v in options.items() if not refused_in_real_time(key)}

    def connector_options(self, brokers: str | None = None) -> dict[str, str]:
        """Return the options that sources and sinks share: declared ones, cluster, security."""
        client = self.client(brokers)
        return {
            **CLIENT_OPTIONS,
            **{name: value for name, value in self.options.items() if not is_access(name)},
            **{f"kafka.{name}": value for name, value in client.java().items()},
            "kafka.bootstrap.servers": client.brokers,
        }

    def client(self, brokers: str | None = None) -> Client:
        """Return the client settings of its cluster.

        Raises:
            SettingsError: No brokers are known, or a client file is invalid.
        """
        return Client.to(self.cluster(brokers), self.config, self.options)

    def _starting_options(self) -> dict[str, str]:
        start = self.starting or "latest"
        if start in ("earliest", "latest"):
            return {"startingOffsets": start}
        return {"startingTimestamp": str(timestamp_ms(start))}

    def cluster(self, brokers: str | None = None) -> str:
        """Return the brokers to use.

        Raises:
            SettingsError: No brokers are known.
        """
        address = brokers or self.stated_brokers
        if not address:
            raise SettingsError(
                "BROKERS_MISSING",
                f"no brokers are known for topic {self.name!r}.",
                hint="pass --brokers HOST:PORT, or eg.Kafka(..., brokers='HOST:PORT').",
            )
        return address

    def client_settings(self, brokers: str | None = None) -> dict[str, str]:
        """Return the settings of the Kafka client; they may contain secrets."""
        return {
            key.removeprefix("kafka."): value
            for key, value in self.connector_options(brokers).items()
            if key.startswith("kafka.")
        }

    def _columns(self) -> list[Column]:
        from pyspark.sql import functions as F

        columns = self._values()
        if self.key and not (self.format == "json" and self.key in self.parsed_schema().names):
            columns.append(F.col("key").cast("string").alias(self.key))
        if self.headers:
            columns.append(F.col("headers"))
        provenance = F.struct("topic", "partition", "offset", "timestamp")
        return [*columns, provenance.alias(SOURCE)]

    def _values(self) -> list[Column]:
        from pyspark.sql import functions as F

        names = self.parsed_schema().names if self.format == "json" else ["value"]
        return [F.col(PARSED).getField(name).alias(name) for name in names]

    def _accepted(
        self, records: DataFrame, brokers: str | None, quarantine: Collection[Position]
    ) -> DataFrame:
        """Parse each value once and keep the valid ones; ``on_error`` handles the others."""
        from pyspark.sql import functions as F

        clusters = dict.fromkeys(self.topics, self.client_settings(brokers))
        rules = {
            **policy(self.on_error, clusters),
            "format": self.format,
            "quarantine": sorted(at for at in quarantine if at[0] in self.topics),
        }
        metadata = ["key", "headers", "topic", "partition", "offset", "timestamp"]
        record = [self._parsed(), *map(F.col, ["value", *metadata])]
        accepted = gateway.accepted(records.sparkSession, json.dumps(rules), record)
        return records.select(accepted.alias(PARSED), *metadata).where(F.col(PARSED).isNotNull())

    def _parsed(self) -> Column:
        from pyspark.sql import functions as F

        if self.format == "bytes":
            return F.struct("value")
        text = F.col("value").cast("string")
        if self.format == "string":
            return F.struct(text.alias("value"))
        return F.from_json(text, self.parsed_schema(), {"mode": "FAILFAST"})

    def parsed_schema(self) -> StructType:
        """Return the schema as a ``StructType``.

        Raises:
            SettingsError: The schema is missing or malformed.
        """
        from pyspark.errors import ParseException
        from pyspark.sql.types import StructType

        if not self.schema:
            raise SettingsError(
                "SCHEMA_MISSING",
                f"topic {self.name!r} has the format json and no schema.",
                hint='set one, such as schema="card STRING, amount DOUBLE", or format="string".',
            )
        if isinstance(self.schema, StructType):
            return self.schema
        try:
            return cast("StructType", StructType.fromDDL(self.schema))
        except ParseException as error:
            raise SettingsError(
                "SCHEMA_MALFORMED",
                f"the schema of topic {self.name!r} cannot be parsed: {self.schema!r} "
                f"({str(error).strip().splitlines()[0]})",
                hint='write it as DDL, such as "card STRING, amount DOUBLE".',
            ) from None
