"""The facts that the rules check, gathered once: plan, settings, topics, checkpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagre.broker import Topics
from eagre.commit import Checkpoint
from eagre.commit.store import StorePath
from eagre.errors import BrokerError, CheckpointError, EagreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eagre.broker import ClientSettings
    from eagre.commit.store import CheckpointPath
    from eagre.jvm.gateway import RunningQuery
    from eagre.preflight.plan import Plan, Source

ANSWER_SECONDS = 10.0
"""How long a check waits for a cluster before it continues without its topics."""


@dataclass(frozen=True)
class TopicFacts:
    """A topic as its cluster describes it, or as a run would create it."""

    name: str
    partitions: int
    exists: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    begins: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointFacts:
    """What a checkpoint fixes."""

    path: str
    file_system: str
    pipeline: str = ""
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    commit_version: int = 0
    stateful: bool = False
    unfinished: int = 0

    @property
    def shuffle_partitions(self) -> int:
        """The number that its state fixes; 0 without state."""
        partitions = self.settings.get("spark.sql.shuffle.partitions")
        return number(partitions, 0) if self.stateful else 0


@dataclass(frozen=True)
class Facts:
    """Everything that the rules look at.

    Attributes:
        mode: The mode of the query.
        plan: Spark's plan.
        settings: The settings of the session that were set explicitly.
        slots: Task slots of the session; None if a cluster decides.
        executors: The executors that the cluster has given; None if it was not asked.
        topics: The known topics of the sources and the sink.
        checkpoint: What the checkpoint fixes, if there is one.
        pipeline: The name of the pipeline.
        others: The queries that already run in this session.
        ignored_options: Source options that Eagre ignores in real time.
        starts: The start offsets of a new checkpoint, if the source names them.
        skew: The share of the most frequent key of each shuffle, in a sample.
        unseen: What the check could not inspect, as sentences.
    """

    mode: str
    plan: Plan
    settings: Mapping[str, str] = field(repr=False)
    slots: int | None
    executors: int | None = None
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    checkpoint: CheckpointFacts | None = None
    pipeline: str = ""
    others: tuple[RunningQuery, ...] = ()
    ignored_options: tuple[str, ...] = ()
    starts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    skew: tuple[tuple[str, float, int], ...] = ()
    unseen: tuple[str, ...] = ()

    def setting(self, key: str, default: str) -> str:
        """Return a setting, or Spark's default for it."""
        return self.settings.get(key, default)

    def on(self, key: str, *, default: bool = False) -> bool:
        """Return whether a boolean setting is true."""
        return self.setting(key, str(default)).lower() == "true"

    @property
    def local(self) -> bool:
        """Whether tasks are threads of this machine, which share its cores."""
        return self.setting("spark.master", "local").startswith("local")

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics that the query reads."""
        return tuple(name for source in self.plan.sources for name in source.topics)

    @property
    def sink_topics(self) -> tuple[str, ...]:
        """The topic that the query writes, if the sink names one."""
        topic = self.plan.option("topic") if self.plan.format == "kafka" else None
        return (topic,) if topic else ()

    def partitions_of(self, source: Source) -> int | None:
        """The number of partitions of a source; None if one of its topics is unknown."""
        if source.assigned:
            return sum(map(len, source.assigned.values()))
        topics = [self.topics.get(name) for name in source.topics]
        if not topics or any(topic is None for topic in topics):
            return None
        return sum(topic.partitions for topic in topics if topic)

    @property
    def terms(self) -> list[int] | None:
        """The slots of each stage: the sources, then each shuffle; None if unknown."""
        sources = [self.partitions_of(source) for source in self.plan.sources if source.real_time]
        if not sources or any(n is None for n in sources):
            return None
        return [sum(n for n in sources if n is not None), *self.shuffles]

    @property
    def shuffles(self) -> tuple[int, ...]:
        """The number of partitions of each shuffle."""
        return tuple(int(node.detail["partitions"]) for node in self.plan.exchanges)


def number(text: object, default: int) -> int:
    """Parse an integer from an option or a setting; return the default if it is not one.

    >>> number("5", 1), number(None, 1), number("5 ms", 1)
    (5, 1, 1)
    """
    try:
        return int(str(text))
    except ValueError:
        return default


def read_topics(
    clusters: Mapping[ClientSettings, set[str]],
) -> tuple[dict[str, TopicFacts], list[str]]:
    """Describe the topics of each cluster; also return sentences about what is unavailable."""
    known: dict[str, TopicFacts] = {}
    unseen: list[str] = []
    for client, names in clusters.items():
        try:
            topics = Topics(client, timeout=ANSWER_SECONDS)
            if not topics.answers():
                unseen.append(f"no broker answers at {client.brokers}: {_listed(names)}")
                continue
            known |= _describe(topics, names, unseen)
            missing = sorted(names - known.keys())
            if missing:
                unseen.append(f"these topics do not exist yet: {', '.join(missing)}")
        except EagreError as error:
            unseen.append(f"{client.brokers}: {_listed(names)} ({error.problem})")
    return known, unseen


def _describe(topics: Topics, names: set[str], unseen: list[str]) -> dict[str, TopicFacts]:
    """Describe topics, and add what the cluster does not reveal to ``unseen``."""
    existing = topics.describe(names)
    settings: dict[str, dict[str, str]] = {}
    begins: dict[str, dict[int, int]] = {}
    try:
        settings = topics.settings(existing)
    except BrokerError as error:
        unseen.append(f"the settings of the topics are unknown ({error.problem})")
    try:
        begins = topics.begins(existing)
    except BrokerError as error:
        unseen.append(f"the earliest offsets of the topics are unknown ({error.problem})")
    return {
        name: TopicFacts(
            name, topic.partitions, settings=settings.get(name, {}), begins=begins.get(name, {})
        )
        for name, topic in existing.items()
    }


def _listed(names: set[str]) -> str:
    return f"topics {', '.join(sorted(names))} were not checked"


def read_checkpoint(location: str | None) -> tuple[CheckpointFacts | None, list[str]]:
    """Read what a checkpoint fixes; of one that cannot be reached, return only the path."""
    if not location:
        return None, []
    try:
        checkpoint = Checkpoint(location)
    except CheckpointError:
        scheme = location.split(":", 1)[0]
        return CheckpointFacts(location, scheme), [f"checkpoint {location} is remote"]
    facts = CheckpointFacts(str(checkpoint.path), _file_system(checkpoint.path))
    try:
        if not checkpoint.exists:
            return facts, []
        binding = checkpoint.binding()
        start = binding.start if binding else {}
        return CheckpointFacts(
            path=facts.path,
            file_system=facts.file_system,
            pipeline=binding.pipeline if binding else "",
            offsets=checkpoint.reached() or start,
            settings=checkpoint.settings(),
            commit_version=checkpoint.commit_version(),
            stateful=checkpoint.stateful,
            unfinished=len(checkpoint.unfinished()),
        ), []
    except (CheckpointError, OSError) as error:
        return facts, [f"the checkpoint could not be read: {error}"]


def _file_system(place: CheckpointPath) -> str:
    """Return the type of file system of a folder, by the longest mount point above it."""
    if isinstance(place, StorePath):
        return place.scheme
    path = str(place)
    try:
        with open("/proc/mounts") as mounts:  # noqa: PTH123
            pairs = [line.split()[1:3] for line in mounts]
    except OSError:
        return ""
    above = [(point, kind) for point, kind in pairs if re.match(rf"{re.escape(point)}(/|$)", path)]
    everywhere = [(point, kind) for point, kind in pairs if point == "/"]
    return max([*above, *everywhere], key=lambda pair: len(pair[0]), default=("", ""))[1]
