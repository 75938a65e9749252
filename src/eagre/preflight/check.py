"""The check of one query: gather the facts, apply every rule."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eagre.config import interval_ms, project_dir
from eagre.connectors.kafka import refused_in_real_time
from eagre.errors import EagreError, SettingsError
from eagre.jvm import gateway
from eagre.pipeline import DEFAULT_EVERY, Pipeline
from eagre.preflight.facts import Facts, TopicFacts, read_checkpoint, read_topics
from eagre.preflight.finding import LEVELS, Finding, known_rules
from eagre.preflight.plan import lines, plan
from eagre.preflight.sample import skew

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from eagre.broker import ClientSettings
    from eagre.connectors import Mode
    from eagre.preflight.plan import Plan

SCHEMA_VERSION = 1
NO_BROKERS = "127.0.0.1:9092"
"""A placeholder to plan a source with when its cluster is unknown; nothing connects to it."""


@dataclass(frozen=True)
class Report:
    """The result of a check.

    Attributes:
        name: The pipeline or query.
        mode: The mode that was checked.
        findings: The findings, errors first.
        terms: The slots of each stage; None if a topic is unknown.
        shuffles: The number of partitions of each shuffle.
        slots: The slots of the session; None if a cluster decides.
        unseen: What the check could not inspect, as sentences.
        local: Whether tasks are threads of one machine; on a cluster each slot is a core.
        executors: The number of executors that the cluster has given; None if it was not asked.
    """

    name: str
    mode: str
    findings: tuple[Finding, ...]
    terms: tuple[int, ...] | None
    shuffles: tuple[int, ...]
    slots: int | None
    unseen: tuple[str, ...]
    local: bool = True
    executors: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the query can start: no finding is an error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that prevent a start."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    def ids(self, *levels: str) -> set[str]:
        """The ids of the findings of these levels, or of all levels."""
        return {f.id for f in self.findings if not levels or f.level in levels}

    @property
    def fixes(self) -> dict[str, str]:
        """The Spark settings that fix findings."""
        return {key: value for finding in self.findings for key, value in finding.settings.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object; ``docs/reference/check.md`` describes the fields."""
        return {
            "name": self.name,
            "mode": self.mode,
            "ok": self.ok,
            "findings": [finding.as_dict() for finding in self.findings],
            "slots": {
                "needed": sum(self.terms) if self.terms else None,
                "terms": list(self.terms) if self.terms else None,
                "available": self.slots,
                "executors": self.executors,
            },
            "unseen": list(self.unseen),
        }


def check(  # noqa: PLR0913  (one option of `eagre check` each)
    what: Pipeline | DataStreamWriter,
    spark: SparkSession | None = None,
    *,
    brokers: str | None = None,
    mode: Mode = "real-time",
    every: str | None = None,
    checkpoint: str | None = None,
    sample: bool = False,
    capacity: gateway.Capacity | None = None,
) -> Report:
    """Check a pipeline, or a prepared ``df.writeStream...`` without ``start``, before data flows.

    A check writes nothing. It reads records only with ``sample=True``.

    >>> report = check(score, brokers="127.0.0.1:9092")  # doctest: +SKIP
    >>> report.ok, [finding.id for finding in report.findings]  # doctest: +SKIP
    (True, [])

    Args:
        what: A pipeline, or a ``DataStreamWriter``.
        spark: The session. Default for a pipeline: the active one, or a new ``eg.session()``.
        brokers: The cluster of a pipeline that does not name one.
        mode: The mode of a pipeline; a ``DataStreamWriter`` has its trigger.
        every: The epoch or trigger interval of a pipeline.
        checkpoint: The checkpoint of a pipeline, to check its contents.
        sample: Read some of the newest records to detect hot keys.
        capacity: What the cluster gives to the session, if it was asked.
    """
    if isinstance(what, Pipeline):
        return _check_pipeline(
            what.on(brokers), _session(spark), mode, every, checkpoint, capacity, sample=sample
        )
    jvm_writer = getattr(what, "_jwrite", None)
    if jvm_writer is None:
        raise SettingsError(
            "NOTHING_TO_CHECK",
            f"eg.check takes a pipeline or df.writeStream..., not {type(what).__name__}.",
            hint="omit .start(): the check runs before the query starts.",
        )
    return _check_write(what, capacity, sample=sample)


def _session(spark: SparkSession | None) -> SparkSession:
    from pyspark.sql import SparkSession

    from eagre.session import session

    return spark or SparkSession.getActiveSession() or session()


def _check_pipeline(  # noqa: PLR0913  (the options of a check)
    pipeline: Pipeline,
    spark: SparkSession,
    mode: Mode,
    every: str | None,
    checkpoint: str | None,
    capacity: gateway.Capacity | None,
    *,
    sample: bool,
) -> Report:
    location = checkpoint or str(project_dir() / "checkpoints" / pipeline.name)
    planned = pipeline.on(NO_BROKERS) if pipeline.needs_brokers else pipeline
    try:
        with lines(spark):
            writer = planned.writer(spark, checkpoint=location, mode=mode, every=every)
    except EagreError:
        raise
    except Exception as error:
        raise pipeline.cannot_be_built(error) from error
    epoch_ms = interval_ms(every or pipeline.default_every(mode) or "0 ms")
    facts = _facts(spark, writer, mode, epoch_ms, capacity)
    facts = replace(facts, pipeline=pipeline.name, ignored_options=_ignored_options(pipeline, mode))
    clusters = _clusters(pipeline)
    seen, unseen = read_topics(clusters)
    if pipeline.needs_brokers:
        unseen.append("no brokers are known: partition counts come from the app's declarations")
    facts = replace(
        facts,
        topics={**_to_create(pipeline, seen), **seen},
        unseen=(*facts.unseen, *unseen),
    )
    return _report(_sampled(spark, writer, facts) if sample else facts, pipeline.name)


def _check_write(
    writer: DataStreamWriter, capacity: gateway.Capacity | None, *, sample: bool
) -> Report:
    spark = writer._spark  # noqa: SLF001  (the session of the DataFrame)
    facts = _facts(spark, writer, None, interval_ms(DEFAULT_EVERY["real-time"]), capacity)
    clusters: dict[ClientSettings, set[str]] = {}
    for source in facts.plan.sources:
        if (client := source.client) and source.topics:
            clusters.setdefault(client, set()).update(source.topics)
    if (client := facts.plan.client) and facts.sink_topics:
        clusters.setdefault(client, set()).update(facts.sink_topics)
    seen, unseen = read_topics(clusters)
    facts = replace(facts, topics=seen, unseen=(*facts.unseen, *unseen))
    name = facts.plan.option("queryName") or "query"
    return _report(_sampled(spark, writer, facts) if sample else facts, name)


def _sampled(spark: SparkSession, writer: DataStreamWriter, facts: Facts) -> Facts:
    """Add the key skew of the newest records; report a sample that cannot be read."""
    try:
        return replace(facts, skew=tuple(skew(spark, writer, facts)))
    except Exception as error:  # noqa: BLE001  (the user's query may raise anything)
        problem = f"the sample could not be read: {gateway.reason(error)}"
        return replace(facts, unseen=(*facts.unseen, problem))


def _facts(
    spark: SparkSession,
    writer: DataStreamWriter,
    mode: Mode | None,
    epoch_ms: int,
    capacity: gateway.Capacity | None,
) -> Facts:
    planned = plan(spark, writer, epoch_ms)
    settings = gateway.settings(spark)
    checkpoint, unseen = read_checkpoint(_checkpoint_of(planned, settings))
    if checkpoint and checkpoint.shuffle_partitions:
        planned = plan(spark, writer, epoch_ms, checkpoint.shuffle_partitions)
    slots = capacity.slots if capacity else gateway.slots(spark)
    if slots is None:
        unseen.append("the number of slots of the cluster is unknown")
    if planned.unplanned:
        unseen.append(f"the query could not be planned: {planned.unplanned}")
    if any(source.option("subscribePattern") for source in planned.sources):
        unseen.append("topics that are subscribed by a pattern were not counted")
    return Facts(
        mode=mode or planned.trigger,
        plan=planned,
        settings=settings,
        slots=slots,
        executors=capacity.executors if capacity else None,
        checkpoint=checkpoint,
        others=gateway.running_queries(spark),
        starts=_start_offsets(planned),
        unseen=tuple(unseen),
    )


def _checkpoint_of(planned: Plan, settings: Mapping[str, str]) -> str | None:
    """Return the checkpoint of the query: its own option, or the session's folder."""
    location, name = planned.option("checkpointLocation"), planned.option("queryName")
    root = settings.get("spark.sql.streaming.checkpointLocation")
    return location or (f"{root}/{name}" if root and name else None)


def _start_offsets(planned: Plan) -> dict[str, dict[int, int]]:
    """Return the start offsets that the sources name explicitly."""
    starts: dict[str, dict[int, int]] = {}
    for source in planned.sources:
        text = source.option("startingOffsets") or ""
        if text.startswith("{"):
            for topic, offsets in json.loads(text).items():
                starts[topic] = {int(p): int(o) for p, o in offsets.items() if int(o) >= 0}
    return starts


def _ignored_options(pipeline: Pipeline, mode: Mode) -> tuple[str, ...]:
    if mode != "real-time":
        return ()
    options = {key for source in pipeline.kafka_sources for key in source.options}
    return tuple(sorted(filter(refused_in_real_time, options)))


def _clusters(pipeline: Pipeline) -> dict[ClientSettings, set[str]]:
    clusters: dict[ClientSettings, set[str]] = {}
    for end in pipeline.topic_ends:
        if end.stated_brokers:
            clusters.setdefault(end.client(), set()).update(end.topics)
    return clusters


def _to_create(pipeline: Pipeline, seen: dict[str, TopicFacts]) -> dict[str, TopicFacts]:
    """Return the topics that a run would create."""
    return {
        name: TopicFacts(name, end.partitions, exists=False)
        for end in pipeline.topic_ends
        if end.create
        for name in end.topics
        if name not in seen
    }


def _report(facts: Facts, name: str) -> Report:
    findings = [finding for rule in known_rules().values() for finding in rule.check(facts)]
    ordered = sorted(findings, key=lambda finding: LEVELS.index(finding.level))
    terms = facts.terms
    return Report(
        name=name,
        mode=facts.mode,
        findings=tuple(_without_duplicates(ordered)),
        terms=tuple(terms) if terms else None,
        shuffles=facts.shuffles,
        slots=facts.slots,
        unseen=facts.unseen,
        local=facts.local,
        executors=facts.executors,
    )


def _without_duplicates(findings: list[Finding]) -> list[Finding]:
    """Drop repeated findings: an expression may occur in several operators of a plan."""
    unique: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        unique.setdefault((finding.id, finding.problem, finding.line), finding)
    return list(unique.values())
