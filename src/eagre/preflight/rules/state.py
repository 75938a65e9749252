"""State: whether it is bounded, and when it expires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.facts import number
from eagre.preflight.finding import Match, rule
from eagre.preflight.rules.slots import SHUFFLE_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts


@rule(
    "STATE_UNBOUNDED",
    "warning",
    "State grows with every new key until the disk is full, and each commit takes longer.",
    real_time_only=False,
)
def state_unbounded(facts: Facts) -> Iterator[Match]:
    """The state keeps keys that never expire forever.

    An aggregation or `dropDuplicates` drops old keys when the watermark passes them. It therefore
    needs a watermark, and the event time or a window of it among its keys:

        eg.Kafka("payments", schema=..., event_time="at", watermark="10 minutes")
        df.groupBy("card", F.window("at", "1 hour")).agg(...)
        df.dropDuplicates(["id", "at"])

    `eg.deduplicate`, `eg.windows` and `eg.rolling` expire their state themselves. If the keys are
    few and known, such as countries, the state is bounded, and you can ignore the warning.
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
        yield Match(
            what,
            f"{what} by {', '.join(keys) or 'all columns'} has {lacks}: its state never expires.",
            "declare event_time and watermark at the source, and put the event time or "
            "F.window(...) among the keys.",
            line=node.line,
        )


@rule("STATE_WITHOUT_TIME", "advice", "State remains until the processor clears it.")
def state_without_time(facts: Facts) -> Iterator[Match]:
    """A `StatefulProcessor` with `TimeMode.None` has neither timers nor TTL.

    Its state remains until the processor calls `clear`. With `ProcessingTime` each state variable
    can have a TTL.
    """
    for node in facts.plan.of_kind("TransformWithState"):
        if node.detail.get("time_mode") in ("NoTime", "None"):
            yield Match(
                "transformWithState",
                f"{node.detail['processor']} runs with TimeMode.None, so it can have no TTL.",
                "use TimeMode.ProcessingTime and a TTL for each state variable.",
                line=node.line,
            )


@rule(
    "WATERMARK_SHORT",
    "advice",
    "Spark drops late rows and expires state up to one epoch later than the watermark implies.",
)
def watermark_short(facts: Facts) -> Iterator[Match]:
    """In real time the watermark advances only at epoch boundaries.

    A delay shorter than the epoch is not wrong: each row still produces its result immediately. But
    Spark expires old keys and drops late rows only after the next epoch boundary.
    """
    every = facts.plan.every_ms
    for node in facts.plan.of_kind("EventTimeWatermark"):
        delay = int(node.detail["delay_ms"])
        if delay < every:
            yield Match(
                "watermark",
                f"the watermark's delay is {delay / 1000:g} s and the epoch {every / 1000:g} s.",
                "shorten the epoch (--every), or treat the epoch as the effective delay.",
                line=node.line,
                numbers={"delay_ms": delay, "epoch_ms": every},
            )


@rule(
    "STATE_PARTITIONS",
    "warning",
    "Spark uses the checkpoint's number and ignores the setting.",
    real_time_only=False,
)
def state_partitions(facts: Facts) -> Iterator[Match]:
    """The setting does not change the number of shuffle partitions of a checkpoint with state.

    Each shuffle partition has one partition of the state. To change the number, stop the pipeline
    and run `eagre checkpoint repartition`, which distributes the state again.
    """
    checkpoint = facts.checkpoint
    setting = facts.settings.get(SHUFFLE_PARTITIONS)
    if not checkpoint or not setting:
        return
    if checkpoint.shuffle_partitions and checkpoint.shuffle_partitions != number(setting, 0):
        yield Match(
            SHUFFLE_PARTITIONS,
            f"the checkpoint has {checkpoint.shuffle_partitions} shuffle partitions, the session "
            f"{setting}.",
            "set the checkpoint's number, or change it with `eagre checkpoint repartition`.",
            numbers={"checkpoint": checkpoint.shuffle_partitions, "session": number(setting, 0)},
            settings={SHUFFLE_PARTITIONS: str(checkpoint.shuffle_partitions)},
        )
