"""Sources and sinks: what they have in common, and the query that they are part of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from eagre.broker.topics import Offsets

Mode = Literal["real-time", "micro-batch", "available-now"]
Delivery = Literal["at-least-once", "exactly-once"]
Position = tuple[str, int, int]
"""The position of a record: topic, partition, offset."""

MODES: tuple[Mode, ...] = get_args(Mode)

SOURCE = "_source"
"""The column with a row's provenance: topic, partition, offset, timestamp."""

WATERMARK = "spark.watermarkDelayMs"
"""The metadata key of a watermark's column in Spark."""


@dataclass(frozen=True)
class Capabilities:
    """What a connector can do. The runtime asks for capabilities, never for a class.

    Attributes:
        modes: The modes that it works in.
        deliveries: For a sink, the delivery guarantees that it offers.
        needs_shuffle: For a sink, whether all rows of a key must reach it in one task. The pipeline
            then repartitions its rows by the sink's ``keys``.
        measurable_latency: Whether each result carries its source record's time, so that the
            latency meter can measure it.
        mid_epoch_commits: For a sink, whether it can confirm its writes while an epoch runs.
    """

    modes: tuple[Mode, ...] = MODES
    deliveries: tuple[Delivery, ...] = ("at-least-once",)
    needs_shuffle: bool = False
    measurable_latency: bool = False
    mid_epoch_commits: bool = False


@dataclass(frozen=True)
class ReplayFilter:
    """Skips the results of an exactly-once pipeline that earlier runs delivered.

    ``delivery.begin`` creates it.

    Attributes:
        prefix: The pipeline's id and the number of the run.
        delivered: The results that earlier runs delivered, as a JVM object.
        dead_letters: The dead letters that earlier runs wrote, as text for the JVM.
    """

    prefix: str
    delivered: object
    dead_letters: str = ""


@dataclass(frozen=True)
class QueryContext:
    """The query that a connector is part of.

    Attributes:
        pipeline: The name of the pipeline, for the log; ``eagre`` outside a pipeline.
        mode: The mode.
        dead_letters: The Kafka client settings for the dead letters of each source topic, in the
            order of the sources. They may contain secrets. Empty outside a pipeline.
        start: The offsets at which a new checkpoint starts. Default: each source's own.
        quarantine: Records that become dead letters without being parsed.
        replay_filter: For exactly-once delivery, skips the results of earlier runs.
        partitioned_by: The columns that determine the partitions of the first source.
        topic_ids: The ids of the source topics, if known. With them a sink recognizes a topic that
            was deleted and created again under the same name.
    """

    pipeline: str = "eagre"
    mode: Mode = "real-time"
    dead_letters: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    start: Offsets | None = None
    quarantine: Collection[Position] = ()
    replay_filter: ReplayFilter | None = None
    partitioned_by: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def run(self) -> dict[str, str] | None:
        """With exactly-once delivery, the identity of this run and the earlier dead letters."""
        replays = self.replay_filter
        return {"prefix": replays.prefix, "written": replays.dead_letters} if replays else None


class Connector(ABC):  # noqa: B024  (its subclasses have abstract methods)
    """A source or a sink.

    Attributes:
        capabilities: What it can do.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()

    @property
    def kind(self) -> str:
        """The kind of system that it connects to, such as ``kafka``."""
        return type(self).__name__.removesuffix("Source").removesuffix("Sink").lower()

    @property
    def name(self) -> str:
        """What it reads or writes, for messages."""
        return str(self)

    @property
    def topics(self) -> tuple[str, ...]:
        """The Kafka topics that it reads or writes; empty for other systems."""
        return ()

    def require_mode(self, mode: Mode) -> None:
        """Check that it works in a mode.

        Raises:
            SettingsError: It does not.
        """
        if mode not in self.capabilities.modes:
            supported = ", ".join(self.capabilities.modes)
            raise SettingsError(
                "MODE_UNSUPPORTED",
                f"{self.name} does not work in the mode {mode}; it supports {supported}.",
                hint=f"run the pipeline with --mode {self.capabilities.modes[0]}.",
            )


class Source(Connector):
    """Where a pipeline's rows come from."""

    @abstractmethod
    def read_stream(self, spark: SparkSession, query: QueryContext) -> DataFrame:
        """Return the stream of rows."""


class Sink(Connector):
    """Where a pipeline's rows go."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify a row; empty if none do."""
        return ()

    @property
    def guarantee(self) -> str:
        """The delivery guarantee in words, for ``eagre status`` and the dashboard."""
        return self.capabilities.deliveries[0]

    @abstractmethod
    def write_stream(self, rows: DataFrame, query: QueryContext) -> DataStreamWriter:
        """Prepare the write, without a trigger or a checkpoint."""

    def rows_written(self, spark: SparkSession, pipeline: str) -> int | None:  # noqa: ARG002
        """Return how many rows a pipeline has written from this driver; None if unknown."""
        return None
