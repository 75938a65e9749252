"""Topics: what the cluster says about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.facts import number
from eagre.preflight.finding import Found, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

RETENTION_EPOCHS = 3
PRODUCER_BYTES = 1_048_576
"""What a producer sends at most by default."""


@rule(
    "TOPIC_LOOP",
    "warning",
    "Each record comes back as a new one: the topic grows without end.",
    real_time_only=False,
)
def topic_loop(facts: Facts) -> Iterator[Found]:
    """The query writes to a topic that it reads.

    Unless a filter keeps results out, each is read again and answered again. Give the results a
    topic of their own.
    """
    for name in sorted({*facts.source_topics} & {*facts.sink_topics}):
        yield Found(
            f"topic {name}",
            f"topic {name!r} is read and written by the same query.",
            "write the results to a topic of their own.",
        )


@rule(
    "OFFSET_AGED_OUT",
    "error",
    "The reader waits for ever at an offset that is gone, without an error.",
)
def offset_aged_out(facts: Facts) -> Iterator[Found]:
    """Retention has deleted the records at which the query would begin.

    In micro-batches Spark says so. The real-time reader polls at the old offset and stays silent,
    whatever `failOnDataLoss` says. Start afresh from the earliest record there is.
    """
    known = facts.checkpoint.offsets if facts.checkpoint else {}
    for name, offsets in (known or facts.starts).items():
        begins = facts.topics[name].begins if name in facts.topics else {}
        for partition, offset in offsets.items():
            if offset < begins.get(partition, 0):
                yield Found(
                    f"topic {name}",
                    f"the query would begin at offset {offset:,} of {name}/{partition}, and the "
                    f"topic begins at {begins[partition]:,}.",
                    "start afresh: `eagre checkpoint reset`, then --from earliest.",
                    numbers={"offset": offset, "begin": begins[partition]},
                )


@rule(
    "DATA_LOSS_OPTION",
    "warning",
    "An offset that is gone stops the partition silently instead of being passed over.",
)
def data_loss_option(facts: Facts) -> Iterator[Found]:
    """`failOnDataLoss=false` is not honoured by the real-time reader.

    It neither skips what is gone nor fails. Keep retention well above the longest standstill.
    """
    for one in facts.plan.sources:
        if (one.option("failOnDataLoss") or "").lower() == "false":
            yield Found(
                "option failOnDataLoss",
                "failOnDataLoss=false is not honoured in real time.",
                "take the option out, and keep retention above the longest standstill.",
            )


@rule(
    "RETENTION_SHORT",
    "warning",
    "After a standstill of that length records are gone before they were read.",
)
def retention_short(facts: Facts) -> Iterator[Found]:
    """The source topic keeps its records for less than a few epochs.

    A restart goes back to the last committed epoch, so at least that much must still be there, and
    the time of the standstill besides.
    """
    for name in facts.source_topics:
        topic = facts.topics.get(name)
        if topic is None or "delete" not in topic.settings.get("cleanup.policy", "delete"):
            continue
        kept = number(topic.settings.get("retention.ms"), -1)
        if 0 <= kept < RETENTION_EPOCHS * facts.plan.every_ms:
            yield Found(
                f"topic {name}",
                f"topic {name!r} keeps records for {kept / 1000:g} s and an epoch is "
                f"{facts.plan.every_ms / 1000:g} s.",
                "raise retention.ms of the topic, or shorten the epoch.",
                numbers={"retention_ms": kept, "epoch_ms": facts.plan.every_ms},
            )


@rule("COMPACTED_SOURCE", "advice", "Older versions of a key may be gone before they are read.")
def compacted_source(facts: Facts) -> Iterator[Found]:
    """A compacted topic keeps the last record of each key.

    A query that is behind, or starts from the earliest record, sees some versions and not others:
    counts and sums differ from run to run. As a table of current values it is just right.
    """
    for name in facts.source_topics:
        topic = facts.topics.get(name)
        if topic and "compact" in topic.settings.get("cleanup.policy", ""):
            yield Found(
                f"topic {name}",
                f"topic {name!r} is compacted: not every record of it is kept.",
                "count and sum over a topic with cleanup.policy=delete.",
            )


@rule("MESSAGE_SIZE", "warning", "A row above the limit of the topic ends the query.")
def message_size(facts: Facts) -> Iterator[Found]:
    """The producer may send larger records than the topic takes.

    The broker then refuses the record (`MESSAGE_TOO_LARGE`), the task fails, and the restart sends
    it again. Raise `max.message.bytes` of the topic, or lower `kafka.max.request.size`.
    """
    stated = number(facts.plan.option("kafka.max.request.size"), PRODUCER_BYTES)
    for name in facts.sink_topics:
        topic = facts.topics.get(name)
        limit = number(topic.settings.get("max.message.bytes"), 0) if topic else 0
        if limit and stated > limit:
            yield Found(
                f"topic {name}",
                f"the producer may send {stated:,} bytes and topic {name!r} takes {limit:,}.",
                "raise max.message.bytes of the topic, or lower kafka.max.request.size.",
                numbers={"request": stated, "topic": limit},
                options={"kafka.max.request.size": str(limit)},
            )
