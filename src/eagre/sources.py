"""Kafka topics as sources of rows, and as the declaration a sink shares."""

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
"""The column with a row's origin: topic, partition, offset, timestamp."""

WATERMARK = "spark.watermarkDelayMs"
"""The key under which Spark marks a watermark's column."""

CLIENT_OPTIONS = {"kafka.enable.metrics.push": "false"}
"""For sources and sinks, whatever the profile: a client that may push its metrics to the broker
looks with every request whether it is to, which is 4 % of a stateless pipeline's JVM."""

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
    """Tell whether a reader option makes a real-time query throw; such are left out there.

    >>> refused_in_real_time("maxOffsetsPerTrigger"), refused_in_real_time("subscribe")
    (True, False)
    """
    return option.lower() in _LIMITS


@dataclass(frozen=True)
class Kafka:
    """A Kafka topic, or several, to read from or to write to.

    >>> payments = Kafka("payments", schema="card STRING, amount DOUBLE")
    >>> payments.topics
    ('payments',)

    Attributes:
        topic: A topic, or several. A sink with several sends each row to the one that its ``topic``
            column names.
        schema: The columns of a JSON value, as DDL or StructType.
        format: ``json``; or ``string`` or ``bytes`` for a single ``value`` column taken as it is.
        key: As a sink, the column whose value keys the record. As a source, a column of that name
            is read from the record's key, unless the schema has it.
        headers: Read the record's headers into a ``headers`` column. A sink writes such a column
            whenever the row has one.
        on_error: What becomes of a record that cannot be parsed and, in a sink, of a row that is
            too large for it: ``dead-letter`` (to the topic ``SOURCE.dlq``), ``drop`` (counted, and
            in the log) or ``fail`` (the query ends).
        event_time: The timestamp column that the watermark goes by.
        watermark: How much disorder to wait for: ``"10 seconds"``. Goes with ``event_time``.
        starting: Where a fresh checkpoint begins: ``earliest``, ``latest``, or an ISO 8601 time.
        partitions: With how many partitions to create the topic where it does not exist.
        create: Whether it may be created.
        brokers: ``host:port`` of its cluster; ``eagre run --brokers`` replaces it.
        delivery: As a sink, ``at-least-once``, where a failure repeats what came since the last
            commit, or ``exactly-once`` (docs/explanation/exactly-once.md).
        fence: ``in-band`` also writes fence records into an exactly-once sink, for readers with
            ``eagre.reader``.
        partitioned_by: As a source, the columns by which its producers choose the partition: rows
            that agree in them are in one partition. Exactly once over keyed state rests on it.
        config: A Kafka client's properties file with what the cluster asks for, such as
            ``security.protocol``; if not given, the one that ``EAGRE_KAFKA_CONFIG`` names.
        options: Options of Spark's Kafka connector, ``kafka.*`` client settings among them.
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
                hint="name the timestamp column and the disorder to wait for: "
                "event_time='at', watermark='10 seconds'.",
            )
        if self.delivery not in get_args(Delivery) or self.fence not in (None, "in-band"):
            raise SettingsError(
                "DELIVERY_UNKNOWN",
                f"topic {self.name!r} must be at-least-once or exactly-once, with fence='in-band' "
                f"or none, not {self.delivery!r} with {self.fence!r}.",
            )
        stated = sorted(key for key in self.options if key.lower().startswith("starting"))
        if stated:
            raise SettingsError(
                "START_AS_OPTION",
                f"topic {self.name!r} says where to begin by the option {stated[0]}.",
                hint="use starting='earliest', 'latest' or an ISO 8601 time, or --from.",
            )

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics, also where there is only one."""
        return (self.topic,) if isinstance(self.topic, str) else tuple(self.topic)

    @property
    def aligned(self) -> tuple[str, ...]:
        """The columns of ``partitioned_by``, also where there is only one."""
        one = self.partitioned_by
        return (one,) if isinstance(one, str) else tuple(one)

    @property
    def name(self) -> str:
        """The topics as one word for messages."""
        return ",".join(self.topics)

    @property
    def stated_brokers(self) -> str | None:
        """The brokers the declaration itself names, if it does."""
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

        A value that cannot be parsed, if only for a field of a wrong type, gives no row:
        ``on_error`` says what becomes of it.

        Args:
            spark: A session made by ``eg.session()`` or through ``eg.configure``.
            brokers: The cluster, if not the declared one.
            mode: Options that real time refuses are left out there.
            start: Where a fresh checkpoint begins, if not at ``starting``.
            quarantine: Records that become dead letters without being looked at.
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
        """Give the options of Spark's Kafka source for a mode."""
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
        """Give the options that a source and a sink have in common: own ones, cluster, security."""
        client = self.client(brokers)
        return {
            **CLIENT_OPTIONS,
            **{name: value for name, value in self.options.items() if not is_access(name)},
            **{f"kafka.{name}": value for name, value in client.java().items()},
            "kafka.bootstrap.servers": client.brokers,
        }

    def client(self, brokers: str | None = None) -> Client:
        """Say how its cluster is reached, for whatever talks to it.

        Raises:
            SettingsError: No brokers are known, or a file of the client cannot be used.
        """
        return Client.to(self.cluster(brokers), self.config, self.options)

    def _starting_options(self) -> dict[str, str]:
        start = self.starting or "latest"
        if start in ("earliest", "latest"):
            return {"startingOffsets": start}
        return {"startingTimestamp": str(timestamp_ms(start))}

    def cluster(self, brokers: str | None = None) -> str:
        """Give the brokers to use.

        Raises:
            SettingsError: None are known.
        """
        found = brokers or self.stated_brokers
        if not found:
            raise SettingsError(
                "BROKERS_MISSING",
                f"no brokers are known for topic {self.name!r}.",
                hint="pass --brokers HOST:PORT, or eg.Kafka(..., brokers='HOST:PORT').",
            )
        return found

    def client_settings(self, brokers: str | None = None) -> dict[str, str]:
        """Give the settings of Kafka's own client; secrets may be among them."""
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
        origin = F.struct("topic", "partition", "offset", "timestamp")
        return [*columns, origin.alias(SOURCE)]

    def _values(self) -> list[Column]:
        from pyspark.sql import functions as F

        names = self.parsed_schema().names if self.format == "json" else ["value"]
        return [F.col(PARSED).getField(name).alias(name) for name in names]

    def _accepted(
        self, records: DataFrame, brokers: str | None, quarantine: Collection[Position]
    ) -> DataFrame:
        """Parse each value once and keep those that can be; the others go by ``on_error``."""
        from pyspark.sql import functions as F

        clusters = dict.fromkeys(self.topics, self.client_settings(brokers))
        rules = {
            **policy(self.on_error, clusters),
            "format": self.format,
            "quarantine": sorted(at for at in quarantine if at[0] in self.topics),
        }
        origin = ["value", "key", "headers", "topic", "partition", "offset", "timestamp"]
        record = [self._parsed(), *map(F.col, origin)]
        accepted = gateway.accepted(records.sparkSession, json.dumps(rules), record)
        kept = ["key", "headers", "topic", "partition", "offset", "timestamp"]
        return records.select(accepted.alias(PARSED), *kept).where(F.col(PARSED).isNotNull())

    def _parsed(self) -> Column:
        from pyspark.sql import functions as F

        if self.format == "bytes":
            return F.struct("value")
        text = F.col("value").cast("string")
        if self.format == "string":
            return F.struct(text.alias("value"))
        return F.from_json(text, self.parsed_schema(), {"mode": "FAILFAST"})

    def parsed_schema(self) -> StructType:
        """Give the schema as Spark's type.

        Raises:
            SettingsError: It is missing or malformed.
        """
        from pyspark.errors import ParseException
        from pyspark.sql.types import StructType

        if not self.schema:
            raise SettingsError(
                "SCHEMA_MISSING",
                f"topic {self.name!r} is read as JSON and has no schema.",
                hint='give one, such as schema="card STRING, amount DOUBLE", or format="string".',
            )
        if isinstance(self.schema, StructType):
            return self.schema
        try:
            return cast("StructType", StructType.fromDDL(self.schema))
        except ParseException as error:
            raise SettingsError(
                "SCHEMA_MALFORMED",
                f"the schema of topic {self.name!r} cannot be read: {self.schema!r} "
                f"({str(error).strip().splitlines()[0]})",
                hint='write it as DDL, such as "card STRING, amount DOUBLE".',
            ) from None
