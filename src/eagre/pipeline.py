"""One pipeline definition, and the modes it runs in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from eagre.config import spark_interval
from eagre.error_policy import PipelineContext, building
from eagre.errors import SettingsError, raised
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
"""The epoch in real time and the trigger in micro-batch.

``docs/internals/decisions/0003-epoch-length.md`` has the reasons.
"""

EXACTLY_ONCE_EVERY = "10 seconds"


@dataclass(frozen=True)
class Pipeline:
    """A named transformation from sources to a sink, the same in every mode.

    Attributes:
        name: Its name; also the query's, and the checkpoint folder's.
        sources: What it reads.
        sink: What it writes.
        transform: The user's function: one DataFrame per source in, one out.
        slo: What it promises about latency, if anything.
    """

    name: str
    sources: tuple[Kafka, ...]
    sink: Kafka | Database
    transform: Callable[..., DataFrame]
    slo: Slo | None = None

    @property
    def needs_brokers(self) -> bool:
        """Whether it must be told where its brokers are."""
        return not all(end.stated_brokers for end in self.topic_ends)

    @property
    def topic_ends(self) -> tuple[Kafka, ...]:
        """Its sources, and its sink where that is a topic too."""
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

    def writer(  # noqa: PLR0913  (what a query is made of)
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

        A sink that asks for exactly once needs ``replays``, the filter that ``delivery.begin``
        makes. Records at the positions in ``quarantine`` become dead letters unread.
        """
        rows = self.rows(spark, brokers, mode, start, quarantine, replays)
        aligned = self.sources[0].aligned
        with building(self._context(brokers, replays)):
            written = writer(
                rows,
                self.sink,
                brokers,
                replay_filter=replays,
                aligned=aligned,
                topic_ids=topic_ids,
            )
        return (
            written.queryName(self.name)
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger(mode, every or self.default_every(mode)))
        )

    def default_every(self, mode: Mode) -> str | None:
        """The epoch or trigger where none is named.

        Exactly once has shorter ones: what a start looks through and reads again is in proportion.
        """
        if mode == "real-time" and self.exactly_once:
            return EXACTLY_ONCE_EVERY
        return DEFAULT_EVERY.get(mode)

    @property
    def exactly_once(self) -> Kafka | None:
        """Its sink, if that asks for exactly once, so that a run needs a replay filter."""
        if isinstance(self.sink, Kafka) and self.sink.delivery == "exactly-once":
            return self.sink
        return None

    def start(self, spark: SparkSession, **options: Any) -> StreamingQuery:  # noqa: ANN401
        """Start the query; the options are those of ``writer``.

        >>> query = score.start(spark, checkpoint="c", brokers="localhost:9092")  # doctest: +SKIP
        """
        return started(self.writer(spark, **options), options.get("mode", "real-time"))

    def __call__(self, *streams: DataFrame) -> DataFrame:
        """Apply the user's function, as if it had never been decorated."""
        return self.transform(*streams)

    def cannot_be_built(self, error: Exception) -> AppError:
        """Describe what the user's function raised, by its own line."""
        path = self.transform.__code__.co_filename
        return raised(error, path, "PIPELINE_RAISED", f"pipeline {self.name!r} cannot be built")

    def _checked(self, rows: object) -> DataFrame:
        from pyspark.sql import DataFrame

        if not isinstance(rows, DataFrame):
            raise SettingsError(
                "PIPELINE_RETURNS_NO_ROWS",
                f"pipeline {self.name!r} must return a DataFrame and returned "
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
    """Make a pipeline of a function that turns a DataFrame into another.

    With several sources the function gets one DataFrame for each, in their order.

    >>> @pipeline(source=Kafka("numbers", schema="n INT"), sink=Kafka("even"))
    ... def even(df):
    ...     return df.where("n % 2 = 0")
    >>> even.name
    'even'

    Args:
        source: Where its rows come from.
        sink: Where its rows go.
        name: The function's name, if not given.
        slo: A promise about latency, such as ``"p99 < 100ms"``: the page shows how fast its error
            budget burns, and ``eagre run --slo-check`` fails where it is broken.
    """
    promise = Slo.parse(slo) if slo else None
    sources = (source,) if isinstance(source, Kafka) else tuple(source)
    topics = all(isinstance(s, Kafka) for s in sources)
    if not sources or not topics or not isinstance(sink, Kafka | Database):
        raise SettingsError(
            "PIPELINE_ENDS",
            "a pipeline needs eg.Kafka(...) as its source (or a list of them), and eg.Kafka(...), "
            "eg.Postgres(...) or eg.Redis(...) as its sink.",
        )

    def decorate(function: Callable[..., DataFrame]) -> Pipeline:
        return Pipeline(name or function.__name__, sources, sink, function, promise)

    return decorate


def started(writer: DataStreamWriter, mode: Mode) -> StreamingQuery:
    """Start a query; one that is to work off what is there comes to an end in any case.

    With timers or TTL by the wall clock Spark runs batches without rows for ever.
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
    """Give the arguments of Spark's ``trigger`` for a mode.

    >>> trigger("real-time", "5 min")
    {'realTime': '300000 milliseconds'}
    >>> trigger("available-now")
    {'availableNow': True}

    Raises:
        SettingsError: The mode is unknown, or the interval malformed.
    """
    if mode not in MODES:
        raise SettingsError(
            "MODE_UNKNOWN", f"mode must be one of {', '.join(MODES)}, not {mode!r}."
        )
    if mode == "available-now":
        return {"availableNow": True}
    keyword = "realTime" if mode == "real-time" else "processingTime"
    return {keyword: spark_interval(every or DEFAULT_EVERY[mode])}
