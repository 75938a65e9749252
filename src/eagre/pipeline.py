"""Pipeline definitions, and the modes that run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from eagre.config import spark_interval
from eagre.error_policy import PipelineContext, building
from eagre.errors import SettingsError, app_error
from eagre.jvm import gateway
from eagre.sinks import Database, writer
from eagre.slo import Slo
from eagre.sources import Kafka, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from eagre.broker.topics import Offsets
    from eagre.error_policy import Position
    from eagre.errors import AppError
    from eagre.sinks import ReplayFilter

MODES: tuple[Mode, ...] = get_args(Mode)

DEFAULT_EVERY = {"real-time": "1 minute", "micro-batch": "500 ms"}
"""The epoch in real time, and the trigger in micro-batch.

``docs/internals/decisions/0003-epoch-length.md`` has the reasons.
"""

EXACTLY_ONCE_EVERY = "10 seconds"


@dataclass(frozen=True)
class Pipeline:
    """A named transformation from sources to a sink, the same in every mode.

    Attributes:
        name: The name of the pipeline, its query and its checkpoint folder.
        sources: The topics that it reads.
        sink: The topic or table that it writes.
        transform: The user's function: takes one DataFrame per source and returns one.
        slo: Its latency SLO, if any.
    """

    name: str
    sources: tuple[Kafka, ...]
    sink: Kafka | Database
    transform: Callable[..., DataFrame]
    slo: Slo | None = None

    @property
    def needs_brokers(self) -> bool:
        """Whether at least one of its topics does not name its brokers."""
        return not all(end.stated_brokers for end in self.topic_ends)

    @property
    def topic_ends(self) -> tuple[Kafka, ...]:
        """Its sources, and its sink if that is a topic."""
        return (*self.sources, self.sink) if isinstance(self.sink, Kafka) else self.sources

    def rows(
        self,
        spark: SparkSession,
        brokers: str | None = None,
        mode: Mode = "real-time",
        start: Offsets | None = None,
        quarantine: Collection[Position] = (),
        replays: ReplayFilter | None = None,
    ) -> DataFrame:
        """Build the stream of result rows, before they are encoded for the sink."""
        with building(self._context(brokers, replays)):
            streams = [
                source.read(
                    spark,
                    brokers,
                    mode,
                    start and {t: start[t] for t in source.topics},
                    quarantine,
                )
                for source in self.sources
            ]
            return self._checked(self.transform(*streams))

    def _context(self, brokers: str | None, replays: ReplayFilter | None) -> PipelineContext:
        return PipelineContext(
            self.name,
            {
                topic: source.client_settings(brokers)
                for source in self.sources
                for topic in source.topics
            },
            {"prefix": replays.prefix, "written": replays.dead_letters} if replays else None,
        )

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
        rows = self.rows(spark, brokers, mode, start, quarantine, replays)
        aligned = self.sources[0].aligned
        with building(self._context(brokers, replays)):
            query = writer(
                rows,
                self.sink,
                brokers,
                replay_filter=replays,
                aligned=aligned,
                topic_ids=topic_ids,
            )
        return (
            query.queryName(self.name)
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
    def exactly_once(self) -> Kafka | None:
        """Its sink, if that is exactly-once: a run then needs a replay filter."""
        if isinstance(self.sink, Kafka) and self.sink.delivery == "exactly-once":
            return self.sink
        return None

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
    source: Kafka | Sequence[Kafka],
    sink: Kafka | Database,
    name: str | None = None,
    slo: str | None = None,
) -> Callable[[Callable[..., DataFrame]], Pipeline]:
    """Make a pipeline from a function that transforms a DataFrame.

    With several sources the function receives one DataFrame for each, in the same order.

    >>> @pipeline(source=Kafka("numbers", schema="n INT"), sink=Kafka("even"))
    ... def even(df):
    ...     return df.where("n % 2 = 0")
    >>> even.name
    'even'

    Args:
        source: Where its rows come from.
        sink: Where its rows go.
        name: The name of the pipeline. Default: the name of the function.
        slo: A latency SLO, such as ``"p99 < 100ms"``. The dashboard shows the burn rate of its
            error budget, and ``eagre run --slo-check`` fails if it is violated.
    """
    target = Slo.parse(slo) if slo else None
    sources = (source,) if isinstance(source, Kafka) else tuple(source)
    topics = all(isinstance(s, Kafka) for s in sources)
    if not sources or not topics or not isinstance(sink, Kafka | Database):
        raise SettingsError(
            "PIPELINE_ENDS",
            "the source of a pipeline must be eg.Kafka(...) or a list of them, and its sink must "
            "be eg.Kafka(...), eg.Postgres(...) or eg.Redis(...).",
        )

    def decorate(function: Callable[..., DataFrame]) -> Pipeline:
        return Pipeline(name or function.__name__, sources, sink, function, target)

    return decorate


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
