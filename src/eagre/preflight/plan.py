"""The planned query: what Spark would run, as the companion describes it without a start."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from eagre.broker.client_settings import ClientSettings, is_access
from eagre.connectors.kafka import find_option
from eagre.errors import JvmError
from eagre.jvm import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def client(options: Mapping[str, str]) -> ClientSettings | None:
    """Return the client settings of a Kafka source or sink; None without a cluster."""
    brokers = find_option(options, "kafka.bootstrap.servers")
    settings = {
        name.lower().removeprefix("kafka."): value
        for name, value in options.items()
        if is_access(name)
    }
    return ClientSettings(brokers, settings) if brokers else None


@dataclass(frozen=True)
class Node:
    """An operator of the logical or the physical plan."""

    name: str
    line: str = ""
    streaming: bool = True
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The class name without its package."""
        return str(self.detail.get("class", self.name)).rpartition(".")[2]


@dataclass(frozen=True)
class Source:
    """A source of the query, with its options."""

    name: str
    real_time: bool
    again: bool
    java_class: str
    options: Mapping[str, str] = field(repr=False)

    def option(self, name: str) -> str | None:
        """Return an option of the source."""
        return find_option(self.options, name)

    @property
    def client(self) -> ClientSettings | None:
        """The client settings of its cluster."""
        return client(self.options)

    @property
    def assigned(self) -> dict[str, list[int]]:
        """The partitions that it assigns explicitly, if any."""
        return dict(json.loads(self.option("assign") or "{}"))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it names; empty if it subscribes to a pattern."""
        named = (self.option("subscribe") or "").split(",")
        return tuple(name.strip() for name in named if name.strip()) or tuple(self.assigned)


@dataclass(frozen=True)
class Refusal:
    """A reason why Spark would not run the query."""

    error_class: str
    message: str


@dataclass(frozen=True)
class Plan:
    """A prepared write and its plan."""

    TRIGGERS: ClassVar = {
        "RealTimeTrigger": "real-time",
        "ContinuousTrigger": "continuous",
        "ProcessingTimeTrigger": "micro-batch",
        "AvailableNowTrigger": "available-now",
        "OneTimeTrigger": "available-now",
    }

    format: str
    output_mode: str
    trigger: str
    every_ms: int
    foreach: str
    options: dict[str, str] = field(repr=False)
    columns: dict[str, str]
    logical: tuple[Node, ...]
    expressions: tuple[dict[str, str], ...]
    operators: tuple[Node, ...]
    sources: tuple[Source, ...]
    refusals: tuple[Refusal, ...]
    unplanned: str
    jvm: dict[str, Any]

    @property
    def exchanges(self) -> tuple[Node, ...]:
        """The shuffles on the streaming path: each occupies a slot for every partition."""
        shuffles = [
            node for node in self.operators if node.streaming and "partitions" in node.detail
        ]
        return tuple(reversed(shuffles))

    def option(self, name: str) -> str | None:
        """Return an option of the sink."""
        return find_option(self.options, name)

    @property
    def client(self) -> ClientSettings | None:
        """The client settings of the sink's cluster."""
        return client(self.options)

    def of_kind(self, *names: str) -> list[Node]:
        """Return the streaming logical operators of these kinds."""
        return [node for node in self.logical if node.name in names and node.streaming]

    def running(self, *kinds: str) -> list[Node]:
        """Return the streaming physical operators of these kinds."""
        return [node for node in self.operators if node.streaming and node.kind in kinds]

    def refused_as(self, text: str) -> Refusal | None:
        """Return the refusal whose class or message contains a text."""
        return next((r for r in self.refusals if text in f"{r.error_class} {r.message}"), None)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Parse the companion's description."""
        facts = json.loads(text)
        facts["trigger"] = cls.TRIGGERS.get(facts["trigger"], facts["trigger"])
        facts["logical"] = tuple(_node(n) for n in facts["logical"])
        facts["operators"] = tuple(_node(n) for n in facts["operators"])
        facts["expressions"] = tuple(facts["expressions"])
        facts["refusals"] = tuple(Refusal(**r) for r in facts["refusals"])
        facts["sources"] = tuple(
            Source(s["name"], s["real_time"], s["again"], s["class"], s["options"])
            for s in facts["sources"]
        )
        return cls(**facts)


def plan(spark: SparkSession, writer: DataStreamWriter, epoch_ms: int, partitions: int = 0) -> Plan:
    """Plan a prepared write.

    Args:
        spark: Its session.
        writer: The write, before ``start``.
        epoch_ms: The epoch to plan with.
        partitions: The number of shuffle partitions that its checkpoint fixes; 0 for none.

    Raises:
        JvmError: This Spark does not give access to a prepared write.
    """
    for member in gateway.missing_members(spark):
        if member.name == "STREAM_WRITER":
            raise JvmError(
                "CHECK_UNAVAILABLE",
                f"{member}.",
                hint="use PySpark 4.3, or pass --no-check to start anyway.",
            )
    companion = gateway.companion(spark, "plan.Preflight")
    return Plan.from_json(companion.describe(writer._jwrite, epoch_ms, partitions))  # noqa: SLF001


@contextlib.contextmanager
def lines(spark: SparkSession) -> Iterator[None]:
    """Record which line of the user's file creates each operator while a query is built."""
    from pyspark.sql.classic.dataframe import DataFrame

    record_line = gateway.companion(spark, "plan.Preflight").mark
    original = DataFrame.__init__

    def recording(self: DataFrame, jdf: Any, *rest: Any) -> None:  # noqa: ANN401  (as PySpark's)
        original(self, jdf, *rest)
        if line := _caller():
            record_line(jdf, line)

    setattr(DataFrame, "__init__", recording)  # noqa: B010  (mypy accepts no other way)
    try:
        yield
    finally:
        setattr(DataFrame, "__init__", original)  # noqa: B010


def _caller() -> str:
    """Return the nearest line that is neither Eagre's nor PySpark's."""
    packages = (str(Path(__file__).parents[1]), *gateway.library_folders())
    frame = sys._getframe(2)  # noqa: SLF001
    while frame:
        name = frame.f_code.co_filename
        if not name.startswith(packages):
            return f"{name}:{frame.f_lineno}"
        if not frame.f_back:
            break
        frame = frame.f_back
    return ""


def _node(fields: dict[str, Any]) -> Node:
    return Node(fields.pop("name"), fields.pop("line"), fields.pop("streaming"), fields)
