"""Everything a check looks at, gathered once: plan, settings, topics, checkpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagre.broker import Topics
from eagre.commit import Checkpoint
from eagre.errors import BrokerError, CheckpointError, EagreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eagre.broker import Client
    from eagre.jvm.gateway import RunningQuery
    from eagre.preflight.plan import Plan, Source

ANSWER_SECONDS = 10.0
"""How long a cluster may take to answer before the check goes on without it."""


@dataclass(frozen=True)
class TopicFacts:
    """A topic as its cluster describes it, or as it would be created."""

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
        """The number that its state has fixed; 0 where there is none."""
        stated = self.settings.get("spark.sql.shuffle.partitions")
        return number(stated, 0) if self.stateful else 0


@dataclass(frozen=True)
class Facts:
    """What the rules ask.

    Attributes:
        mode: How the query will run.
        plan: What Spark planned.
        settings: The session's settings, as far as they were set.
        slots: Task slots of a local session; None on a cluster.
        topics: The topics of sources and sink that are known.
        checkpoint: What the checkpoint fixes, if one is named.
        pipeline: The name of the pipeline.
        others: The queries that run in this session already.
        left_out: Source options that Eagre leaves out in real time.
        starts: Where a fresh checkpoint would begin, where offsets are stated.
        skew: The share of the most frequent key of each shuffle, in a sample.
        unseen: What could not be seen, in words.
    """

    mode: str
    plan: Plan
    settings: Mapping[str, str] = field(repr=False)
    slots: int | None
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    checkpoint: CheckpointFacts | None = None
    pipeline: str = ""
    others: tuple[RunningQuery, ...] = ()
    left_out: tuple[str, ...] = ()
    starts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    skew: tuple[tuple[str, float, int], ...] = ()
    unseen: tuple[str, ...] = ()

    def setting(self, key: str, default: str) -> str:
        """Give a setting, or Spark's default for it."""
        return self.settings.get(key, default)

    def on(self, key: str, *, default: bool = False) -> bool:
        """Tell whether a switch is on."""
        return self.setting(key, str(default)).lower() == "true"

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics that are read."""
        return tuple(name for source in self.plan.sources for name in source.topics)

    @property
    def sink_topics(self) -> tuple[str, ...]:
        """The topic that is written, where the sink names one."""
        topic = self.plan.option("topic") if self.plan.format == "kafka" else None
        return (topic,) if topic else ()

    def partitions_of(self, source: Source) -> int | None:
        """How many partitions a source has; None where a topic of it was not seen."""
        if source.assigned:
            return sum(map(len, source.assigned.values()))
        known = [self.topics.get(name) for name in source.topics]
        if not known or any(topic is None for topic in known):
            return None
        return sum(topic.partitions for topic in known if topic)

    @property
    def terms(self) -> list[int] | None:
        """The slots in the order of the stages: sources, then each shuffle; None if unknown."""
        sources = [self.partitions_of(source) for source in self.plan.sources if source.real_time]
        if not sources or any(n is None for n in sources):
            return None
        return [sum(n for n in sources if n is not None), *self.shuffles]

    @property
    def shuffles(self) -> tuple[int, ...]:
        """The partitions of each shuffle."""
        return tuple(int(node.detail["partitions"]) for node in self.plan.exchanges)


def number(text: object, default: int) -> int:
    """Read a whole number, as options and settings have it; the default where it is none.

    >>> number("5", 1), number(None, 1), number("5 ms", 1)
    (5, 1, 1)
    """
    try:
        return int(str(text))
    except ValueError:
        return default


def see_topics(clusters: Mapping[Client, set[str]]) -> tuple[dict[str, TopicFacts], list[str]]:
    """Ask each cluster about its topics; say in words what could not be seen."""
    found: dict[str, TopicFacts] = {}
    unseen: list[str] = []
    for client, names in clusters.items():
        try:
            topics = Topics(client, timeout=ANSWER_SECONDS)
            if not topics.answers():
                unseen.append(f"no broker answers at {client.brokers}: {_listed(names)}")
                continue
            found |= _described(topics, names, unseen)
            missing = sorted(names - found.keys())
            if missing:
                unseen.append(f"these topics do not exist yet: {', '.join(missing)}")
        except EagreError as error:
            unseen.append(f"{client.brokers}: {_listed(names)} ({error.problem})")
    return found, unseen


def _described(topics: Topics, names: set[str], unseen: list[str]) -> dict[str, TopicFacts]:
    """Describe topics, and say what the cluster does not let us see of them."""
    known = topics.describe(names)
    settings: dict[str, dict[str, str]] = {}
    begins: dict[str, dict[int, int]] = {}
    try:
        settings = topics.settings(known)
    except BrokerError as error:
        unseen.append(f"the settings of the topics were not seen ({error.problem})")
    try:
        begins = topics.begins(known)
    except BrokerError as error:
        unseen.append(f"the oldest offsets of the topics were not seen ({error.problem})")
    return {
        name: TopicFacts(
            name, topic.partitions, settings=settings.get(name, {}), begins=begins.get(name, {})
        )
        for name, topic in known.items()
    }


def _listed(names: set[str]) -> str:
    return f"topics {', '.join(sorted(names))} were not seen"


def see_checkpoint(location: str | None) -> tuple[CheckpointFacts | None, list[str]]:
    """Read what a checkpoint fixes; a remote one is only named."""
    if not location:
        return None, []
    try:
        checkpoint = Checkpoint(location)
    except CheckpointError:
        scheme = location.split(":", 1)[0]
        return CheckpointFacts(location, scheme), [f"checkpoint {location} is remote"]
    facts = CheckpointFacts(str(checkpoint.path), _file_system(str(checkpoint.path)))
    if not checkpoint.exists:
        return facts, []
    try:
        binding = checkpoint.binding()
        begun = binding.start if binding else {}
        return CheckpointFacts(
            path=facts.path,
            file_system=facts.file_system,
            pipeline=binding.pipeline if binding else "",
            offsets=checkpoint.reached() or begun,
            settings=checkpoint.settings(),
            commit_version=checkpoint.commit_version(),
            stateful=checkpoint.stateful,
            unfinished=len(checkpoint.unfinished()),
        ), []
    except (CheckpointError, OSError) as error:
        return facts, [f"the checkpoint was not read: {error}"]


def _file_system(path: str) -> str:
    """Name the kind of file system a folder is on, by the longest mount point above it."""
    try:
        with open("/proc/mounts") as mounts:  # noqa: PTH123
            pairs = [line.split()[1:3] for line in mounts]
    except OSError:
        return ""
    above = [(point, kind) for point, kind in pairs if re.match(rf"{re.escape(point)}(/|$)", path)]
    everywhere = [(point, kind) for point, kind in pairs if point == "/"]
    return max([*above, *everywhere], key=lambda pair: len(pair[0]), default=("", ""))[1]
