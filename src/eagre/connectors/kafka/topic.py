"""A Kafka topic: what sources and sinks share."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from eagre.broker.client_settings import ClientSettings, is_access
from eagre.connectors.base import Capabilities, Connector
from eagre.connectors.error_policy import OnError, check_on_error
from eagre.connectors.registry import format_named
from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql.types import StructType

    from eagre.connectors.formats import Format

CLIENT_OPTIONS = {"kafka.enable.metrics.push": "false"}
"""For sources and sinks, in every profile. With metrics push enabled, a client checks with every
request whether it is due, which costs 4 % of a stateless pipeline's CPU time in the JVM."""


def find_option(options: Mapping[str, str], name: str) -> str | None:
    """Return an option; Spark's option names are case-insensitive.

    >>> find_option({"StartingOffsets": "latest"}, "startingOffsets")
    'latest'
    """
    return {key.lower(): value for key, value in options.items()}.get(name.lower())


@dataclass(frozen=True)
class KafkaTopic(Connector):
    """A Kafka topic, or several.

    Attributes:
        topic: A topic, or several.
        schema: The columns of a value, as DDL or StructType.
        format: The format of a value: ``json``, ``string``, ``bytes``, or a registered one.
        key: The column of the record's key.
        on_error: What to do with a record that cannot be read or written: ``dead-letter``, ``drop``
            or ``fail``.
        partitions: The number of partitions if Eagre creates the topic.
        create: Whether Eagre may create the topic.
        brokers: ``host:port`` of its cluster; ``eagre run --brokers`` overrides it.
        config: A Kafka client properties file with the settings of the cluster, such as
            ``security.protocol``. Default: the file in ``EAGRE_KAFKA_CONFIG``.
        options: Options of Spark's Kafka connector, including ``kafka.*`` client settings.
    """

    topic: str | Sequence[str]
    _: KW_ONLY
    schema: str | StructType | None = None
    format: str = "json"
    key: str | None = None
    on_error: OnError = "dead-letter"
    partitions: int = 1
    create: bool = True
    brokers: str | None = None
    config: Path | str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    capabilities: ClassVar = Capabilities(
        deliveries=("at-least-once", "exactly-once"),
        measurable_latency=True,
        mid_epoch_commits=True,
    )

    def __post_init__(self) -> None:
        if not self.topics or not all(self.topics):
            raise SettingsError("TOPIC_MISSING", "eg.Kafka needs the name of a topic.")
        format_named(self.format)
        check_on_error(self.on_error)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics as a tuple."""
        return (self.topic,) if isinstance(self.topic, str) else tuple(self.topic)

    @property
    def name(self) -> str:
        """The topics as one string, for messages."""
        return ",".join(self.topics)

    @property
    def kind(self) -> str:
        """``kafka``."""
        return "kafka"

    @property
    def value_format(self) -> Format:
        """The format of a value."""
        return format_named(self.format)

    @property
    def stated_brokers(self) -> str | None:
        """The brokers that the declaration names, if any."""
        return self.brokers or self.options.get("kafka.bootstrap.servers")

    def option(self, name: str, default: str) -> str:
        """Return a declared option in any capitalisation, or the default."""
        declared = find_option(self.options, name)
        return default if declared is None else declared

    def on(self, brokers: str | None) -> Self:
        """Return the same topic on another cluster; None changes nothing.

        >>> KafkaTopic("payments").on("127.0.0.1:9092").cluster
        '127.0.0.1:9092'
        """
        changes: dict[str, Any] = {"brokers": brokers}
        return replace(self, **changes) if brokers else self

    @property
    def cluster(self) -> str:
        """The brokers to use.

        Raises:
            SettingsError: No brokers are known.
        """
        address = self.stated_brokers
        if not address:
            raise SettingsError(
                "BROKERS_MISSING",
                f"no brokers are known for topic {self.name!r}.",
                hint="pass --brokers HOST:PORT, or eg.Kafka(..., brokers='HOST:PORT').",
            )
        return address

    def client(self) -> ClientSettings:
        """Return the client settings of its cluster.

        Raises:
            SettingsError: No brokers are known, or a client file is invalid.
        """
        return ClientSettings.to(self.cluster, self.config, self.options)

    def connector_options(self) -> dict[str, str]:
        """Return the options that sources and sinks share: declared ones, cluster, security."""
        client = self.client()
        return {
            **CLIENT_OPTIONS,
            **{name: value for name, value in self.options.items() if not is_access(name)},
            **{f"kafka.{name}": value for name, value in client.java().items()},
            "kafka.bootstrap.servers": client.brokers,
        }

    def client_settings(self) -> dict[str, str]:
        """Return the settings of the Kafka client; they may contain secrets."""
        return {
            key.removeprefix("kafka."): value
            for key, value in self.connector_options().items()
            if key.startswith("kafka.")
        }

    def parsed_schema(self) -> StructType:
        """Return the columns of a value.

        Raises:
            SettingsError: The schema is missing or malformed.
        """
        from pyspark.errors import ParseException
        from pyspark.sql.types import StructType

        schema = self.value_format.schema or self.schema
        if not schema:
            raise SettingsError(
                "SCHEMA_MISSING",
                f"topic {self.name!r} has the format {self.format} and no schema.",
                hint='set one, such as schema="card STRING, amount DOUBLE", or format="string".',
            )
        if isinstance(schema, StructType):
            return schema
        try:
            return cast("StructType", StructType.fromDDL(schema))
        except ParseException as error:
            raise SettingsError(
                "SCHEMA_MALFORMED",
                f"the schema of topic {self.name!r} cannot be parsed: {schema!r} "
                f"({str(error).strip().splitlines()[0]})",
                hint='write it as DDL, such as "card STRING, amount DOUBLE".',
            ) from None
