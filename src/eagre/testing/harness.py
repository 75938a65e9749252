"""Runs a pipeline on given rows, in any mode, with a real broker, and returns its results."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from eagre.broker import ClientSettings, Topics
from eagre.commit import Checkpoint
from eagre.connectors import KafkaSource
from eagre.delivery import Outputs, begin
from eagre.jvm import gateway
from eagre.reader import Fences
from eagre.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from eagre.broker.topics import Offsets
    from eagre.connectors import KafkaSink, Mode, ReplayFilter
    from eagre.pipeline import Pipeline

EPOCH = "500 ms"
TIMEOUT_SECONDS = 60
LARGEST_RECORD = 1 << 27
AFTERWARDS = 2
"""The number of empty batches after which a query with timers counts as finished."""
CONSUMED_AT_ONCE = 100_000
BRIEF_FETCH = {"kafka.fetch.max.wait.ms": "20"}
"""For micro-batches. Spark asks for the ends of a topic after a fetch that waits for more records,
by default for 500 ms: each batch of a test would take as long."""


@dataclass(frozen=True)
class Record:
    """A Kafka record, for tests that need more than a row.

    Attributes:
        value: Its bytes, a string, None, or a row to be written as JSON.
        key: Its key.
        headers: Its headers.
        timestamp_ms: Its time; now if not given.
        partition: Its partition; by the key if not given.
    """

    value: Any
    key: bytes | str | None = None
    headers: Mapping[str, bytes] | None = None
    timestamp_ms: int | None = None
    partition: int | None = None

    @property
    def data(self) -> bytes | None:
        """The value as bytes."""
        if self.value is None or isinstance(self.value, bytes):
            return self.value
        text = self.value if isinstance(self.value, str) else json.dumps(self.value, default=str)
        return text.encode()


class RunPipeline(Protocol):
    """The object behind the fixtures ``run_pipeline`` and ``run_in_both_modes``."""

    def __call__(
        self,
        pipeline: Pipeline,
        rows: Sequence[Any] | Mapping[str, Sequence[Any]],
        *,
        mode: Mode = ...,
        checkpoint: Path | None = ...,
        until: Callable[[Any], bool] | None = ...,
    ) -> Any:  # noqa: ANN401  (rows, or rows by topic)
        """Run the pipeline over the rows."""


class Harness:
    """A broker and a session that run pipelines for tests.

    Every run reads only its own rows: it starts at the current end of its topics.
    """

    def __init__(self, spark: SparkSession, brokers: str, folder: Path) -> None:
        self.spark = spark
        self.brokers = brokers
        self.topics = Topics(ClientSettings.to(brokers))
        self._folder = folder
        self._runs = 0

    def run(
        self,
        pipeline: Pipeline,
        rows: Sequence[Any] | Mapping[str, Sequence[Any]],
        *,
        mode: Mode = "real-time",
        checkpoint: Path | None = None,
        until: Callable[[Any], bool] | None = None,
    ) -> Any:  # noqa: ANN401  (rows, or rows by topic)
        """Run a pipeline until it has processed the rows, and return its results.

        Args:
            pipeline: The pipeline.
            rows: Rows for its first topic, or rows by topic. A row is a dict, a string, bytes, None
                or a ``Record``.
            mode: The mode.
            checkpoint: A folder to resume from; a new one by default.
            until: Called with the results so far; the query runs until it returns true.
                Use it for results of timers.

        Returns:
            The rows (dicts from JSON, else strings or bytes); by topic where the sink has several.
            None of a database: the test asks it.
        """
        self._make_topics(pipeline)
        inputs = self.topics.ends(t for source in pipeline.sources for t in source.topics)
        sink = pipeline.kafka_sink
        outputs = self.topics.ends(sink.topics) if sink else {}
        self.write(pipeline, rows)
        folder = Checkpoint(checkpoint or self._fresh())
        query = (pipeline if mode == "real-time" else _in_brief(pipeline)).start(
            self.spark,
            checkpoint=str(folder.path),
            brokers=self.brokers,
            mode=mode,
            every=None if mode == "available-now" else EPOCH if mode == "real-time" else "0 ms",
            start=inputs,
            replays=self.replay_filter(pipeline, folder),
        )
        try:
            self._await_all(query, mode, self.topics.ends(inputs))
            if sink and until:
                self._await_results(query, sink, outputs, until)
        finally:
            query.stop()
            gateway.await_tasks(self.spark, query, TIMEOUT_SECONDS)
        return self._results(sink, outputs) if sink else []

    def replay_filter(self, pipeline: Pipeline, checkpoint: Checkpoint) -> ReplayFilter | None:
        """Start the replay filter of an exactly-once pipeline; None for others."""
        sink = pipeline.exactly_once
        if not sink:
            return None
        checkpoint.folder.mkdir(parents=True, exist_ok=True)
        _, position = checkpoint.committed()
        bound = sink.on(self.brokers)
        outputs = Outputs(
            pipeline.on(self.brokers).kafka_sources,
            bound,
            self.topics,
            self.topics,
            bound.client_id(pipeline.name),
        )
        replays, _ = begin(self.spark, outputs, checkpoint, position, lambda _: None)
        return replays

    def _fresh(self) -> Path:
        self._runs += 1
        return self._folder / str(self._runs)

    def _make_topics(self, pipeline: Pipeline) -> None:
        for end in pipeline.topic_ends:
            existing = self.topics.describe(end.topics)
            for name in end.topics:
                if name not in existing:
                    self.topics.create(name, end.partitions)

    def write(self, pipeline: Pipeline, rows: Any) -> None:  # noqa: ANN401  (as run takes them)
        """Write rows into the pipeline's topics."""
        from confluent_kafka import Producer

        settings = {
            "partitioner": "murmur2_random",
            "message.max.bytes": LARGEST_RECORD,
            "queue.buffering.max.messages": 0,  # no limit: the rows are in memory already
        }
        producer = Producer({**self.topics.client_settings, **settings})
        first = pipeline.sources[0]
        by_topic = rows if isinstance(rows, dict) else {first.topics[0]: rows}
        for topic, items in by_topic.items():
            for item in items:
                record = item if isinstance(item, Record) else Record(item)
                producer.produce(topic, record.data, record.key, **_extras(record))
        wait_until(
            lambda: not producer.flush(1),
            TIMEOUT_SECONDS,
            "the broker did not accept the test's rows",
            interval=0,
        )

    def _await_all(self, query: StreamingQuery, mode: Mode, ends: Offsets) -> None:
        if mode == "micro-batch":
            wait_until(
                lambda: _settled(query, ends),
                TIMEOUT_SECONDS,
                f"the query did not process all rows within {TIMEOUT_SECONDS} s",
            )
        elif mode == "available-now":
            wait_until(
                lambda: query.awaitTermination(1),
                TIMEOUT_SECONDS,
                f"the query did not end within {TIMEOUT_SECONDS} s",
                interval=0,
            )
        else:
            wait_until(
                lambda: _reached(query, ends),
                TIMEOUT_SECONDS,
                f"the query did not commit all rows within {TIMEOUT_SECONDS} s",
            )

    def _await_results(
        self, query: StreamingQuery, sink: KafkaSink, begin: Offsets, until: Callable[[Any], bool]
    ) -> None:
        """Wait for results and for their commit, so that a resumed run repeats nothing."""

        def there() -> bool:
            _unfailed(query)
            return until(self._results(sink, begin))

        wait_until(
            there,
            TIMEOUT_SECONDS,
            f"the results awaited did not come within {TIMEOUT_SECONDS} s",
            interval=0.25,
        )
        before = _last_batch(query)
        wait_until(
            lambda: _last_batch(query) > before or not query.status["isTriggerActive"],
            TIMEOUT_SECONDS,
            f"the query did not commit its results within {TIMEOUT_SECONDS} s",
        )

    def _results(self, sink: KafkaSink, begin: Offsets) -> Any:  # noqa: ANN401
        results = {topic: list(self._read(topic, begin[topic], sink)) for topic in sink.topics}
        return results if len(sink.topics) > 1 else results[sink.topics[0]]

    def _read(self, topic: str, begin: dict[int, int], sink: KafkaSink) -> Iterator[Any]:
        fences = Fences()
        for record in self.records(topic, begin):
            if not fences.admit(topic, record.partition(), record.headers()):
                continue
            yield sink.value_format.decode(record.value())

    def records(self, topic: str, begin: dict[int, int]) -> list[Any]:
        """Read a topic from the given offsets to its present end, partition by partition."""
        from confluent_kafka import Consumer, TopicPartition

        ends = self.topics.ends([topic])[topic]
        missing = sum(ends.values()) - sum(begin.values())
        consumer = Consumer({**self.topics.client_settings, "group.id": "eagre-testing"})
        consumer.assign([TopicPartition(topic, p, offset) for p, offset in begin.items()])
        consumed: list[Any] = []

        def complete() -> bool:
            wanted = min(missing - len(consumed), CONSUMED_AT_ONCE)
            if wanted > 0:
                consumed.extend(r for r in consumer.consume(wanted, 1) if not r.error())
            return len(consumed) >= missing

        try:
            wait_until(complete, TIMEOUT_SECONDS, "", interval=0)
        except TimeoutError:
            raise TimeoutError(
                f"only {len(consumed)} of {missing} records of {topic!r} could be read"
            ) from None
        finally:
            consumer.close()
        return sorted(consumed, key=lambda record: (record.partition(), record.offset()))


def _in_brief(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with sources that do not wait for more rows than there are."""
    sources = (
        replace(source, options={**BRIEF_FETCH, **source.options})
        if isinstance(source, KafkaSource)
        else source
        for source in pipeline.sources
    )
    return replace(pipeline, sources=tuple(sources))


def _extras(record: Record) -> dict[str, Any]:
    extras = {
        "headers": dict(record.headers) if record.headers else None,
        "timestamp": record.timestamp_ms,
        "partition": record.partition,
    }
    return {name: value for name, value in extras.items() if value is not None}


def _last_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return progress.batchId if progress else -1


def _unfailed(query: StreamingQuery) -> StreamingQuery:
    """Raise the error of a failed query."""
    failure = query.exception()
    if failure is not None:
        raise failure
    return query


def _settled(query: StreamingQuery, ends: Offsets) -> bool:
    """Return whether all rows are processed, including results of watermarks and timers.

    Spark's ``processAllAvailable`` never returns where timers go by the wall clock: there is always
    another batch.
    """
    if not _reached(query, ends):
        return False
    recent = query.recentProgress[-AFTERWARDS:]
    idle = not query.status["isTriggerActive"] and not query.status["isDataAvailable"]
    return idle or (len(recent) == AFTERWARDS and all(p.numInputRows == 0 for p in recent))


def _reached(query: StreamingQuery, ends: Offsets) -> bool:
    """Return whether the last commit covers every offset; raise if the query failed."""
    progress = _unfailed(query).lastProgress
    if not progress:
        return False
    done: dict[str, dict[str, int]] = {}
    for source in progress.sources:
        done.update(json.loads(source.endOffset or "{}"))
    return all(
        done.get(topic, {}).get(str(p), 0) >= end
        for topic, partitions in ends.items()
        for p, end in partitions.items()
    )
