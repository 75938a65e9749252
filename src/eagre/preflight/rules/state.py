"""State: that it has an end, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.facts import number
from eagre.preflight.finding import Found, rule
from eagre.preflight.rules.slots import SHUFFLE_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts


@rule(
    "STATE_UNBOUNDED",
    "warning",
    "State grows with every new key until the disk is full; each epoch commits more.",
    real_time_only=False,
)
def state_unbounded(facts: Facts) -> Iterator[Found]:
    """Keys that never expire are kept for ever.

    An aggregation or `dropDuplicates` drops old keys when the watermark passes them, so it needs a
    watermark, and the event time, or a window of it, among its keys:

        eg.Kafka("payments", schema=..., event_time="at", watermark="10 minutes")
        df.groupBy("card", F.window("at", "1 hour")).agg(...)
        df.dropDuplicates(["id", "at"])

    `eg.deduplicate`, `eg.windows` and `eg.rolling` end their state by themselves. Where the keys
    are few and known, such as countries, the state is bounded by itself, and the warning can be
    left aside.
    """
    watermark = bool(facts.plan.of_kind("EventTimeWatermark"))
    for node in facts.plan.of_kind("Aggregate", "Deduplicate", "Distinct"):
        if node.detail.get("bounded") or node.detail.get("session"):
            continue
        what = "groupBy" if node.name == "Aggregate" else "dropDuplicates"
        keys = node.detail.get("keys") or []
        if node.name == "Aggregate" and not keys:
            continue
        lacks = "no event time among its keys" if watermark else "no watermark"
        yield Found(
            what,
            f"{what} by {', '.join(keys) or 'all columns'} has {lacks}: its state never goes.",
            "declare event_time and watermark at the source, and put the event time or "
            "F.window(...) among the keys.",
            line=node.line,
        )


@rule("STATE_WITHOUT_TIME", "advice", "State stays until the processor itself clears it.")
def state_without_time(facts: Facts) -> Iterator[Found]:
    """A `StatefulProcessor` with `TimeMode.None` has neither timers nor TTL.

    Its state goes only where the processor calls `clear`. With `ProcessingTime` each state variable
    can have a TTL.
    """
    for node in facts.plan.of_kind("TransformWithState"):
        if node.detail.get("time_mode") in ("NoTime", "None"):
            yield Found(
                "transformWithState",
                f"{node.detail['processor']} runs with TimeMode.None, so it can have no TTL.",
                "use TimeMode.ProcessingTime and a TTL for each state variable.",
                line=node.line,
            )


@rule(
    "WATERMARK_SHORT",
    "advice",
    "Late rows are judged, and state is dropped, up to an epoch later than the watermark says.",
)
def watermark_short(facts: Facts) -> Iterator[Found]:
    """In real time the watermark moves only between epochs.

    A delay shorter than the epoch is not wrong: results come with each row all the same. But what
    depends on the watermark happens at the next boundary: old keys leave the state and late rows
    are turned away with the precision of the epoch.
    """
    every = facts.plan.every_ms
    for node in facts.plan.of_kind("EventTimeWatermark"):
        delay = int(node.detail["delay_ms"])
        if delay < every:
            yield Found(
                "watermark",
                f"the watermark's delay is {delay / 1000:g} s and the epoch {every / 1000:g} s.",
                "shorten the epoch (--every), or take it as the true delay.",
                line=node.line,
                numbers={"delay_ms": delay, "epoch_ms": every},
            )


@rule(
    "STATE_PARTITIONS",
    "warning",
    "Spark goes on with the checkpoint's number and leaves the setting aside.",
    real_time_only=False,
)
def state_partitions(facts: Facts) -> Iterator[Found]:
    """A checkpoint fixes the number of shuffle partitions of a stateful query for good.

    Each partition of the state is one partition of the shuffle. To change it start afresh on
    purpose: `eagre checkpoint reset`, and `--from` where the new state shall begin.
    """
    known = facts.checkpoint
    stated = facts.settings.get(SHUFFLE_PARTITIONS)
    if not known or not stated:
        return
    if known.shuffle_partitions and known.shuffle_partitions != number(stated, 0):
        yield Found(
            SHUFFLE_PARTITIONS,
            f"the checkpoint has {known.shuffle_partitions} shuffle partitions and the session "
            f"{stated}.",
            "set the checkpoint's number, or start afresh with `eagre checkpoint reset`.",
            numbers={"checkpoint": known.shuffle_partitions, "session": number(stated, 0)},
            settings={SHUFFLE_PARTITIONS: str(known.shuffle_partitions)},
        )
