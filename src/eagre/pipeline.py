"""Pipeline definitions, and the modes that run them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eagre.config import spark_interval
from eagre.connectors import (
    MODES,
    KafkaSink,
    KafkaSource,
    KafkaTopic,
    Mode,
    QueryContext,
    Sink,
    Source,
    as_sink,
    sources,
)
from eagre.errors import SettingsError, app_error
from eagre.jvm import gateway
from eagre.slo import Slo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from eagre.broker.topics import Offsets
    from eagre.connectors import ReplayFilter
    from eagre.connectors.base import Position
    from eagre.errors import AppError

DEFAULT_EVERY = {"real-time": "1 minute", "micro-batch": "500 ms"}
"""The commit interval in real time, the trigger in micro-batch.

``docs/internals/decisions/0003-epoch-length.md`` has the reasons.
"""

EXACTLY_ONCE_EVERY = "10 seconds"


@dataclass(frozen=True)
class Pipeline:
    """A named transformation from sources to a sink, the same in every mode.

    Attributes:
        name: The name of the pipeline, its query and its checkpoint folder.
        sources: Where its rows come from.
        sink: Where its rows go.
        transform: The user's function: takes one DataFrame per source and returns one.
        slo: Its latency SLO, if any.
    """

    name: str
    sources: tuple[Source, ...]
    sink: Sink
    transform: Callable[..., DataFrame]
    slo: Slo | None = None

    @property
    def needs_brokers(self) -> bool:
        """Whether at least one of its topics does not name its brokers."""
        return not all(end.stated_brokers for end in self.topic_ends)

    @property
    def kafka_sources(self) -> tuple[KafkaSource, ...]:
        """Its sources that are topics."""
        return tuple(source for source in self.sources if isinstance(source, KafkaSource))

    @property
    def kafka_sink(self) -> KafkaSink | None:
        """Its sink, if that is a topic."""
        return self.sink if isinstance(self.sink, KafkaSink) else None

    @property
    def topic_ends(self) -> tuple[KafkaTopic, ...]:
        """Its sources and its sink, as far as they are topics."""
        return (*self.kafka_sources, *((self.kafka_sink,) if self.kafka_sink else ()))

    def on(self, brokers: str | None) -> Pipeline:
        """Return the same pipeline with all of its topics on one cluster; None changes nothing."""

        def moved(end: Any) -> Any:  # noqa: ANN401  (a source or a sink)
            return end.on(brokers) if isinstance(end, KafkaTopic) else end

        return replace(self, sources=tuple(map(moved, self.sources)), sink=moved(self.sink))

    def context(
        self,
        mode: Mode = "real-time",
        *,
        start: Offsets | None = None,
        replay_filter: ReplayFilter | None = None,
        topic_ids: Mapping[str, str] | None = None,
        quarantine: Collection[Position] = (),
    ) -> QueryContext:
        """Describe a query of this pipeline to its connectors."""
        clusters = {
            topic: settings
            for source in self.kafka_sources
            for topic, settings in source.clusters().items()
        }
        return QueryContext(
            pipeline=self.name,
            mode=mode,
            dead_letters=clusters,
            start=start,
            quarantine=quarantine,
            replay_filter=replay_filter,
            partitioned_by=self.kafka_sources[0].aligned if self.kafka_sources else (),
            topic_ids=topic_ids or {},
        )

    def rows(self, spark: SparkSession, query: QueryContext) -> DataFrame:
        """Build the stream of result rows, before they are encoded for the sink."""
        for end in (*self.sources, self.sink):
            end.require_mode(query.mode)
        streams = [source.read_stream(spark, query) for source in self.sources]
        return self._checked(self.transform(*streams))

    def write_stream(self, spark: SparkSession, query: QueryContext) -> DataStreamWriter:
        """Prepare the query from its sources to its sink, without a checkpoint or a trigger."""
        rows = self.rows(spark, query)
        if self.sink.capabilities.needs_shuffle:
            rows = rows.repartition(*(rows[f"`{key}`"] for key in self.sink.keys))
        return self.sink.write_stream(rows, query).queryName(self.name)

    def writer(  # noqa: PLR0913  (the parts of a query)
        self,
        spark: SparkSession,
        *,
        checkpoint: str,
        brokers: str | None = None,
        mode: Mode = "real-time",
        every: str | None = None,
        start: Offsets | None = None,
        replays: ReplayFilter | None = None,
        topic_ids: Mapping[str, str] | None = None,
        quarantine: Collection[Position] = (),
    ) -> DataStreamWriter:
        """Prepare the query: sources, transformation, sink, checkpoint, trigger.

        An exactly-once sink needs ``replays``, the filter that ``delivery.begin`` creates. Records
        at the positions in ``quarantine`` become dead letters without being parsed.
        """
        pipeline = self.on(brokers)
        query = pipeline.context(
            mode,
            start=start,
            replay_filter=replays,
            topic_ids=topic_ids,
            quarantine=quarantine,
        )
        return (
            pipeline.write_stream(spark, query)
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger(mode, every or self.default_every(mode)))
        )

    def default_every(self, mode: Mode) -> str | None:
        """Return the default epoch or trigger interval.

        Exactly once uses shorter epochs: a restart scans and repeats at most one epoch.
        """
        if mode == "real-time" and self.exactly_once:
            return EXACTLY_ONCE_EVERY
        return DEFAULT_EVERY.get(mode)

    @property
    def exactly_once(self) -> KafkaSink | None:
        """Its sink, if that is exactly-once: a run then needs a replay filter."""
        sink = self.kafka_sink
        return sink if sink and sink.delivery == "exactly-once" else None

    def start(self, spark: SparkSession, **options: Any) -> StreamingQuery:  # noqa: ANN401
        """Start the query with the options of ``writer``.

        >>> query = score.start(spark, checkpoint="c", brokers="localhost:9092")  # doctest: +SKIP
        """
        return started(self.writer(spark, **options), options.get("mode", "real-time"))

    def __call__(self, *streams: DataFrame) -> DataFrame:
        """Call the user's function, as if it were not decorated."""
        return self.transform(*streams)

    def cannot_be_built(self, error: Exception) -> AppError:
        """Describe the exception of the user's function, with its line."""
        path = self.transform.__code__.co_filename
        return app_error(error, path, "PIPELINE_RAISED", f"pipeline {self.name!r} cannot be built")

    def _checked(self, rows: object) -> DataFrame:
        from pyspark.sql import DataFrame

        if not isinstance(rows, DataFrame):
            raise SettingsError(
                "PIPELINE_RETURNS_NO_ROWS",
                f"pipeline {self.name!r} must return a DataFrame, and returned "
                f"{type(rows).__name__}.",
                hint="end the function with `return df...`.",
            )
        return rows


def pipeline(
    *,
    source: Source | Sequence[Source],
    sink: Any,  # noqa: ANN401  (a sink, or what as_sink makes one of)
    name: str | None = None,
    slo: str | None = None,
) -> Callable[[Callable[..., DataFrame]], Pipeline]:
    """Make a pipeline from a function that transforms a DataFrame.

    With several sources the function receives one DataFrame for each, in the same order.

    >>> from eagre.connectors import Kafka
    >>> @pipeline(source=Kafka("numbers", schema="n INT"), sink=Kafka("even"))
    ... def even(df):
    ...     return df.where("n % 2 = 0")
    >>> even.name
    'even'

    Args:
        source: Where its rows come from.
        sink: Where its rows go: a connector, an ``eg.Sink``, or what PySpark's ``foreach`` accepts.
        name: The name of the pipeline. Default: the name of the function.
        slo: A latency SLO, such as ``"p99 < 100ms"``. The dashboard shows the burn rate of its
            error budget, and ``eagre run --slo-check`` fails if it is violated.
    """
    target = Slo.parse(slo) if slo else None
    inputs = tuple(source) if isinstance(source, Iterable) else (source,)
    if not inputs or not all(isinstance(end, Source) for end in inputs):
        raise SettingsError(
            "PIPELINE_ENDS",
            f"the source of a pipeline must be a source ({_listed(sources())}) or a list of them.",
        )
    output = as_sink(sink)

    def decorate(function: Callable[..., DataFrame]) -> Pipeline:
        return Pipeline(name or function.__name__, inputs, output, function, target)

    return decorate


def _listed(connectors: Mapping[str, object]) -> str:
    return ", ".join(sorted(connectors))


def started(writer: DataStreamWriter, mode: Mode) -> StreamingQuery:
    """Start a query, and make sure that ``available-now`` queries stop.

    With processing-time timers or TTL, Spark would otherwise run empty batches forever.
    """
    df = writer._df  # noqa: SLF001  (PySpark offers no public way)
    if mode == "real-time":
        query = writer.start()
        gateway.cache_plans(df.sparkSession, query)
        return query
    if mode != "available-now" or not gateway.uses_processing_time(df):
        return writer.start()
    conf = df.sparkSession.conf
    before = str(conf.get(_EMPTY_BATCHES))
    conf.set(_EMPTY_BATCHES, "false")
    try:
        return writer.start()
    finally:
        conf.set(_EMPTY_BATCHES, before)


_EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


def trigger(mode: Mode, every: str | None = None) -> dict[str, Any]:
    """Return the arguments of Spark's ``trigger`` for a mode.

    >>> trigger("real-time", "5 min")
    {'realTime': '300000 milliseconds'}
    >>> trigger("available-now")
    {'availableNow': True}

    Raises:
        SettingsError: The mode is unknown, or the interval is malformed.
    """
    if mode not in MODES:
        raise SettingsError(
            "MODE_UNKNOWN", f"mode must be one of {', '.join(MODES)}, not {mode!r}."
        )
    if mode == "available-now":
        return {"availableNow": True}
    keyword = "realTime" if mode == "real-time" else "processingTime"
    return {keyword: spark_interval(every or DEFAULT_EVERY[mode])}
