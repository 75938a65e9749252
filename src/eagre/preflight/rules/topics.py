"""Topics: retention, offsets and limits, as the cluster reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.facts import number
from eagre.preflight.finding import Match, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

RETENTION_EPOCHS = 3
PRODUCER_BYTES = 1_048_576
"""The producer's default for ``max.request.size``."""


@rule(
    "TOPIC_LOOP",
    "warning",
    "The query reads its own output: the topic grows without limit.",
    real_time_only=False,
)
def topic_loop(facts: Facts) -> Iterator[Match]:
    """The query writes to a topic that it reads.

    Unless a filter excludes its results, the query reads each of them and produces another one.
    Write the results to a separate topic.
    """
    for name in sorted({*facts.source_topics} & {*facts.sink_topics}):
        yield Match(
            f"topic {name}",
            f"the query reads and writes topic {name!r}.",
            "write the results to a separate topic.",
        )


@rule(
    "OFFSET_AGED_OUT",
    "error",
    "The reader waits forever at an offset that no longer exists, without an error.",
)
def offset_aged_out(facts: Facts) -> Iterator[Match]:
    """Retention has deleted the records at which the query would start.

    In micro-batches Spark reports an error. The real-time reader keeps polling the old offset
    without an error, whatever `failOnDataLoss` says. Start from scratch at the earliest record.
    """
    known = facts.checkpoint.offsets if facts.checkpoint else {}
    for name, offsets in (known or facts.starts).items():
        begins = facts.topics[name].begins if name in facts.topics else {}
        for partition, offset in offsets.items():
            if offset < begins.get(partition, 0):
                yield Match(
                    f"topic {name}",
                    f"the query would start at offset {offset:,} of {name}/{partition}, and the "
                    f"topic starts at {begins[partition]:,}.",
                    "start from scratch: `eagre checkpoint reset`, then --from earliest.",
                    numbers={"offset": offset, "begin": begins[partition]},
                )


@rule(
    "DATA_LOSS_OPTION",
    "warning",
    "At a deleted offset the partition stops silently; Spark does not skip it.",
)
def data_loss_option(facts: Facts) -> Iterator[Match]:
    """The real-time reader ignores `failOnDataLoss=false`.

    It neither skips deleted records nor fails. Keep retention well above the longest downtime.
    """
    for stream in facts.plan.sources:
        if (stream.option("failOnDataLoss") or "").lower() == "false":
            yield Match(
                "option failOnDataLoss",
                "real time ignores failOnDataLoss=false.",
                "remove the option, and keep retention above the longest downtime.",
            )


@rule(
    "RETENTION_SHORT",
    "warning",
    "After a downtime of that length, Kafka deletes records before the query reads them.",
)
def retention_short(facts: Facts) -> Iterator[Match]:
    """The source topic keeps its records for less than a few epochs.

    A restart goes back to the last commit. The topic must retain at least one epoch, plus the
    longest downtime.
    """
    for name in facts.source_topics:
        topic = facts.topics.get(name)
        if topic is None or "delete" not in topic.settings.get("cleanup.policy", "delete"):
            continue
        retention = number(topic.settings.get("retention.ms"), -1)
        if 0 <= retention < RETENTION_EPOCHS * facts.plan.every_ms:
            yield Match(
                f"topic {name}",
                f"topic {name!r} retains records for {retention / 1000:g} s and an epoch is "
                f"{facts.plan.every_ms / 1000:g} s.",
                "raise retention.ms of the topic, or shorten the epoch.",
                numbers={"retention_ms": retention, "epoch_ms": facts.plan.every_ms},
            )


@rule(
    "COMPACTED_SOURCE", "advice", "Kafka may delete older versions of a key before they are read."
)
def compacted_source(facts: Facts) -> Iterator[Match]:
    """A compacted topic keeps the last record of each key.

    A query that lags, or that starts from the earliest record, sees some versions and misses
    others, so counts and sums differ between runs. For a table of current values, such as in
    `eg.lookup`, a compacted topic is the right choice.
    """
    for name in facts.source_topics:
        topic = facts.topics.get(name)
        if topic and "compact" in topic.settings.get("cleanup.policy", ""):
            yield Match(
                f"topic {name}",
                f"topic {name!r} is compacted: it does not retain every record.",
                "count and sum over a topic with cleanup.policy=delete.",
            )


@rule("MESSAGE_SIZE", "warning", "A record above the topic's limit stops the query.")
def message_size(facts: Facts) -> Iterator[Match]:
    """The producer may send larger records than the topic accepts.

    The broker then rejects the record (`MESSAGE_TOO_LARGE`), the task fails, and the restart sends
    it again. Raise `max.message.bytes` of the topic, or lower `kafka.max.request.size`.
    """
    request = number(facts.plan.option("kafka.max.request.size"), PRODUCER_BYTES)
    for name in facts.sink_topics:
        topic = facts.topics.get(name)
        limit = number(topic.settings.get("max.message.bytes"), 0) if topic else 0
        if limit and request > limit:
            yield Match(
                f"topic {name}",
                f"the producer may send {request:,} bytes, and topic {name!r} accepts {limit:,}.",
                "raise max.message.bytes of the topic, or lower kafka.max.request.size.",
                numbers={"request": request, "topic": limit},
                options={"kafka.max.request.size": str(limit)},
            )
