"""The check of one query: gather the facts, ask every rule."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eagre.config import interval_ms, project_dir
from eagre.errors import EagreError, SettingsError
from eagre.jvm import gateway
from eagre.pipeline import DEFAULT_EVERY, Pipeline
from eagre.preflight.facts import Facts, TopicFacts, see_checkpoint, see_topics
from eagre.preflight.finding import LEVELS, Finding, known_rules
from eagre.preflight.plan import lines, plan
from eagre.preflight.sample import skew
from eagre.sources import refused_in_real_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from eagre.broker import Client
    from eagre.preflight.plan import Plan
    from eagre.sources import Mode

SCHEMA_VERSION = 1
NO_BROKERS = "127.0.0.1:9092"
"""What a source is planned with when its cluster is not known; it is never asked."""


@dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        name: The pipeline or query.
        mode: The mode it was checked for.
        findings: Errors first.
        terms: The slots it needs, stage by stage; None if a topic was not seen.
        shuffles: The partitions of each shuffle.
        slots: The slots of the session; None on a cluster.
        unseen: What could not be seen, in words.
    """

    name: str
    mode: str
    findings: tuple[Finding, ...]
    terms: tuple[int, ...] | None
    shuffles: tuple[int, ...]
    slots: int | None
    unseen: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the query may start: no finding is an error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings for which it may not."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    def ids(self, *levels: str) -> set[str]:
        """The names of the findings of some levels, or of all."""
        return {f.id for f in self.findings if not levels or f.level in levels}

    @property
    def fixes(self) -> dict[str, str]:
        """The Spark settings that mend what settings can mend."""
        return {key: value for finding in self.findings for key, value in finding.settings.items()}

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it; ``docs/reference/check.md`` describes the fields."""
        return {
            "name": self.name,
            "mode": self.mode,
            "ok": self.ok,
            "findings": [finding.as_dict() for finding in self.findings],
            "slots": {
                "needed": sum(self.terms) if self.terms else None,
                "terms": list(self.terms) if self.terms else None,
                "available": self.slots,
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
) -> Report:
    """Check a pipeline, or a prepared write up to and without ``start``, before any data flows.

    Nothing is read from a topic, unless a sample is asked for, and nothing is written.

    >>> report = check(score, brokers="127.0.0.1:9092")  # doctest: +SKIP
    >>> report.ok, [finding.id for finding in report.findings]  # doctest: +SKIP
    (True, [])

    Args:
        what: A pipeline, or what ``df.writeStream...`` gives.
        spark: The session; a pipeline is checked in the active one, or in a new ``eg.session()``.
        brokers: The cluster of a pipeline that names none.
        mode: The mode of a pipeline; a write has its trigger.
        every: The epoch or trigger of a pipeline.
        checkpoint: The checkpoint of a pipeline, to check what is in it.
        sample: Read a few of the newest records, to look for hot keys.
    """
    if isinstance(what, Pipeline):
        return _check_pipeline(what, _session(spark), brokers, mode, every, checkpoint, sample)
    jvm_writer = getattr(what, "_jwrite", None)
    if jvm_writer is None:
        raise SettingsError(
            "NOTHING_TO_CHECK",
            f"eg.check takes a pipeline or df.writeStream..., not {type(what).__name__}.",
            hint="leave out .start(): a query is checked before it runs.",
        )
    return _check_write(what, sample=sample)


def _session(spark: SparkSession | None) -> SparkSession:
    from pyspark.sql import SparkSession

    from eagre.session import session

    return spark or SparkSession.getActiveSession() or session()


def _check_pipeline(  # noqa: PLR0913, PLR0917
    pipeline: Pipeline,
    spark: SparkSession,
    brokers: str | None,
    mode: Mode,
    every: str | None,
    checkpoint: str | None,
    sample: bool,  # noqa: FBT001
) -> Report:
    at = checkpoint or str(project_dir() / "checkpoints" / pipeline.name)
    unknown = NO_BROKERS if pipeline.needs_brokers else None
    try:
        with lines(spark):
            writer = pipeline.writer(
                spark,
                checkpoint=at,
                brokers=brokers or unknown,
                mode=mode,
                every=every,
            )
    except EagreError:
        raise
    except Exception as error:
        raise pipeline.cannot_be_built(error) from error
    facts = _facts(
        spark, writer, mode, interval_ms(every or pipeline.default_every(mode) or "0 ms")
    )
    facts = replace(facts, pipeline=pipeline.name, left_out=_left_out(pipeline, mode))
    clusters = _clusters(pipeline, brokers)
    seen, unseen = see_topics(clusters)
    if pipeline.needs_brokers and not brokers:
        unseen.append("no brokers are known: partitions are taken as the app declares them")
    facts = replace(
        facts,
        topics={**_to_create(pipeline, seen), **seen},
        unseen=(*facts.unseen, *unseen),
    )
    return _report(_sampled(spark, writer, facts) if sample else facts, pipeline.name)


def _check_write(writer: DataStreamWriter, *, sample: bool) -> Report:
    spark = writer._spark  # noqa: SLF001  (the session of the DataFrame)
    facts = _facts(spark, writer, None, interval_ms(DEFAULT_EVERY["real-time"]))
    clusters: dict[Client, set[str]] = {}
    for source in facts.plan.sources:
        if (client := source.client) and source.topics:
            clusters.setdefault(client, set()).update(source.topics)
    if (client := facts.plan.client) and facts.sink_topics:
        clusters.setdefault(client, set()).update(facts.sink_topics)
    seen, unseen = see_topics(clusters)
    facts = replace(facts, topics=seen, unseen=(*facts.unseen, *unseen))
    name = facts.plan.option("queryName") or "query"
    return _report(_sampled(spark, writer, facts) if sample else facts, name)


def _sampled(spark: SparkSession, writer: DataStreamWriter, facts: Facts) -> Facts:
    """Look at the newest records; a sample that cannot be read is said, and no failure."""
    try:
        return replace(facts, skew=tuple(skew(spark, writer, facts)))
    except Exception as error:  # noqa: BLE001  (whatever the user's own query raises over data)
        told = f"the sample could not be read: {gateway.reason(error)}"
        return replace(facts, unseen=(*facts.unseen, told))


def _facts(
    spark: SparkSession, writer: DataStreamWriter, mode: Mode | None, epoch_ms: int
) -> Facts:
    planned = plan(spark, writer, epoch_ms)
    settings = gateway.settings(spark)
    known, unseen = see_checkpoint(_checkpoint_of(planned, settings))
    if known and known.shuffle_partitions:
        planned = plan(spark, writer, epoch_ms, known.shuffle_partitions)
    slots = gateway.slots(spark)
    if slots is None:
        unseen.append("the slots of the cluster are not known")
    if planned.unplanned:
        unseen.append(f"the query could not be planned: {planned.unplanned}")
    if any(source.option("subscribePattern") for source in planned.sources):
        unseen.append("the topics of a pattern were not counted")
    return Facts(
        mode=mode or planned.trigger,
        plan=planned,
        settings=settings,
        slots=slots,
        checkpoint=known,
        others=gateway.running_queries(spark),
        starts=_stated_starts(planned),
        unseen=tuple(unseen),
    )


def _checkpoint_of(planned: Plan, settings: Mapping[str, str]) -> str | None:
    """Where the query would keep its progress: its own option, or the session's folder."""
    stated, name = planned.option("checkpointLocation"), planned.option("queryName")
    root = settings.get("spark.sql.streaming.checkpointLocation")
    return stated or (f"{root}/{name}" if root and name else None)


def _stated_starts(planned: Plan) -> dict[str, dict[int, int]]:
    """Read offsets that a source names by numbers."""
    starts: dict[str, dict[int, int]] = {}
    for source in planned.sources:
        text = source.option("startingOffsets") or ""
        if text.startswith("{"):
            for topic, offsets in json.loads(text).items():
                starts[topic] = {int(p): int(o) for p, o in offsets.items() if int(o) >= 0}
    return starts


def _left_out(pipeline: Pipeline, mode: Mode) -> tuple[str, ...]:
    if mode != "real-time":
        return ()
    stated = {key for source in pipeline.sources for key in source.options}
    return tuple(sorted(filter(refused_in_real_time, stated)))


def _clusters(pipeline: Pipeline, brokers: str | None) -> dict[Client, set[str]]:
    clusters: dict[Client, set[str]] = {}
    for end in pipeline.topic_ends:
        if brokers or end.stated_brokers:
            clusters.setdefault(end.client(brokers), set()).update(end.topics)
    return clusters


def _to_create(pipeline: Pipeline, seen: dict[str, TopicFacts]) -> dict[str, TopicFacts]:
    """Give the topics that a run would create."""
    return {
        name: TopicFacts(name, end.partitions, exists=False)
        for end in pipeline.topic_ends
        if end.create
        for name in end.topics
        if name not in seen
    }


def _report(facts: Facts, name: str) -> Report:
    found = [finding for rule in known_rules().values() for finding in rule.check(facts)]
    ordered = sorted(found, key=lambda finding: LEVELS.index(finding.level))
    terms = facts.terms
    return Report(
        name=name,
        mode=facts.mode,
        findings=tuple(_once(ordered)),
        terms=tuple(terms) if terms else None,
        shuffles=facts.shuffles,
        slots=facts.slots,
        unseen=facts.unseen,
    )


def _once(findings: list[Finding]) -> list[Finding]:
    """Say each thing once: an expression may stand in several operators of a plan."""
    seen: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        seen.setdefault((finding.id, finding.problem, finding.line), finding)
    return list(seen.values())
