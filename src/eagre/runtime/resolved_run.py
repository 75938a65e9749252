"""Resolves everything that a query needs, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagre.broker import Topic, Topics
from eagre.commit import Binding, Checkpoint, stream_metadata
from eagre.config import counted, interval_ms, timestamp_ms
from eagre.errors import BrokerError, CheckpointError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eagre.broker import ClientSettings
    from eagre.broker.topics import Offsets
    from eagre.connectors import KafkaSource, KafkaTopic, Mode
    from eagre.pipeline import Pipeline
    from eagre.profile import Clients
    from eagre.runtime.spec import RunSpec


@dataclass(frozen=True)
class ResolvedRun:
    """Everything that is decided before a query starts; nothing changes it afterwards.

    Attributes:
        pipeline: The pipeline; its topics name their cluster.
        mode: The mode.
        every: The commit interval in real time, the trigger in micro-batch.
        delivery: The delivery guarantee of the sink.
        clients: The Kafka client options of the profile.
        requested_start: Where a new checkpoint begins, as the user wrote it.
        checkpoint: The checkpoint.
        topics: The topics of the sources' cluster; None if no source is a topic.
        outputs: The topics of the sink's cluster; None if the sink is not a topic.
        start: Where a new checkpoint begins.
        position: The source offsets this run continues from.
        sources: The id and the number of partitions of each source topic.
        resumed: The last committed batch, or -1.
    """

    pipeline: Pipeline
    mode: Mode
    every: str | None
    delivery: str
    clients: Clients
    requested_start: str | None
    checkpoint: Checkpoint
    topics: Topics | None
    outputs: Topics | None
    start: Offsets
    position: Offsets
    sources: dict[str, tuple[str, int]]
    resumed: int

    @property
    def every_ms(self) -> int:
        """The commit interval or trigger in milliseconds; 0 for ``available-now``."""
        return interval_ms(self.every or "0 ms")

    @property
    def trigger_seconds(self) -> float:
        """The time between two micro-batches; 0 in real time, where rows flow all the time."""
        return self.every_ms / 1000 if self.mode == "micro-batch" else 0.0

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the source topics."""
        return {name: id_ for name, (id_, _) in self.sources.items()}

    @property
    def source_partitions(self) -> int:
        """The number of partitions of all source topics."""
        return sum(partitions for _, partitions in self.sources.values())

    def lag(self) -> int:
        """Return how many records are waiting in the source topics."""
        ends = self.topics.ends(self.sources) if self.topics else {}
        return sum(
            max(0, end - self.position.get(topic, {}).get(partition, 0))
            for topic, partitions in ends.items()
            for partition, end in partitions.items()
        )


def resolve(
    pipeline: Pipeline,
    spec: RunSpec,
    clients: Clients,
    checkpoint: Checkpoint,
    say: Callable[[str], None],
) -> ResolvedRun:
    """Validate topics and checkpoint before anything is read.

    Raises:
        EagreError: The cluster does not respond, a topic is missing and may not be created, or the
            checkpoint is broken or belongs to another pipeline, cluster or topic.
    """
    topics = Topics(_one_cluster(pipeline)) if pipeline.kafka_sources else None
    stream_metadata.require_readable(checkpoint.path)
    checkpoint.adopt()
    batch, committed = checkpoint.committed()
    sources = _ensure_topics(topics, pipeline.kafka_sources, say) if topics else {}
    sink = pipeline.kafka_sink
    outputs = Topics(sink.client()) if sink else None
    if sink and outputs:
        _ensure_topics(outputs, (sink,), say)
    bound = checkpoint.binding()
    fresh = bound is None
    begin = _begin_of_new(pipeline, spec, bound, topics)
    binding = Binding(
        pipeline.name,
        topics.cluster_id() if topics else "",
        {name: topic.id for name, topic in sources.items()},
        begin,
    )
    if spec.start and (batch >= 0 or not fresh):
        say(
            f"--from {spec.start} is ignored: checkpoint {checkpoint.path} determines where to "
            "continue"
        )
    if fresh and batch >= 0:
        _require_plausible(checkpoint, committed, topics)
        say(
            f"checkpoint {checkpoint.path} was created without eagre run; it is now bound to this "
            "pipeline"
        )
    binding = checkpoint.bind(binding)
    start = _with_new_partitions(binding.start, sources)
    return ResolvedRun(
        pipeline=pipeline,
        mode=spec.mode,
        every=spec.every or pipeline.default_every(spec.mode),
        delivery=pipeline.sink.guarantee,
        clients=clients,
        requested_start=spec.start,
        checkpoint=checkpoint,
        topics=topics,
        outputs=outputs,
        start=start,
        position={t: committed.get(t, start[t]) for t in sources} if committed else binding.start,
        sources={name: (topic.id, topic.partitions) for name, topic in sources.items()},
        resumed=batch,
    )


def _require_plausible(checkpoint: Checkpoint, committed: Offsets, topics: Topics | None) -> None:
    """Reject an unbound checkpoint whose offsets are beyond the ends of the topics."""
    for name, ends in topics.ends(committed).items() if topics else ():
        beyond = [p for p, offset in committed[name].items() if offset > ends.get(p, 0)]
        if beyond:
            raise CheckpointError(
                "CHECKPOINT_OTHER_TOPIC",
                f"checkpoint {checkpoint.path} is at offset {committed[name][beyond[0]]} of "
                f"{name}/{beyond[0]}, which ends at {ends.get(beyond[0], 0)}; it was created with "
                "another topic or cluster.",
                hint=f"start from scratch with `eagre checkpoint reset {checkpoint.path}`.",
            )


def _one_cluster(pipeline: Pipeline) -> ClientSettings:
    clusters = sorted({source.cluster for source in pipeline.kafka_sources})
    if len(clusters) > 1:
        raise SettingsError(
            "SEVERAL_CLUSTERS",
            f"the sources of pipeline {pipeline.name!r} are on several clusters: "
            f"{'; '.join(clusters)}.",
            hint="read from one cluster; the sink may be on another.",
        )
    return pipeline.kafka_sources[0].client()


def _ensure_topics(
    topics: Topics, endpoints: Sequence[KafkaTopic], say: Callable[[str], None]
) -> dict[str, Topic]:
    existing = topics.describe(name for endpoint in endpoints for name in endpoint.topics)
    for endpoint in endpoints:
        for name in endpoint.topics:
            if name not in existing:
                _create(topics, endpoint, name)
                say(f"created topic {name!r} with {counted(endpoint.partitions, 'partition')}")
    return topics.describe(name for endpoint in endpoints for name in endpoint.topics)


def _create(topics: Topics, endpoint: KafkaTopic, name: str) -> None:
    topics.require_not_hidden(name)
    if not endpoint.create:
        raise BrokerError(
            "TOPIC_NOT_FOUND",
            f"topic {name!r} does not exist on {topics.brokers} and may not be created "
            "(create=False).",
            hint=f"`eagre topic create {name} --brokers {topics.brokers}` creates it.",
        )
    topics.create(name, endpoint.partitions)


def _begin_of_new(
    pipeline: Pipeline, spec: RunSpec, bound: Binding | None, topics: Topics | None
) -> Offsets:
    """Return where the sources begin that the checkpoint does not have."""
    begin: Offsets = {}
    known = bound.topics.keys() if bound else set()
    for source in pipeline.kafka_sources:
        if topics and known.isdisjoint(source.topics):
            begin |= _begin(topics, source, spec.mode, spec.start)
    return begin


def _begin(topics: Topics, source: KafkaSource, mode: Mode, start: str | None) -> Offsets:
    position = start or source.starting or ("earliest" if mode == "available-now" else "latest")
    if position == "earliest":
        return topics.begins(source.topics)
    if position == "latest":
        return topics.ends(source.topics)
    return topics.at(source.topics, timestamp_ms(position))


def _with_new_partitions(start: Offsets, sources: dict[str, Topic]) -> Offsets:
    """Add partitions that a topic gained later; they are read from the beginning."""
    return {
        name: {p: start.get(name, {}).get(p, 0) for p in range(topic.partitions)}
        for name, topic in sources.items()
    }
