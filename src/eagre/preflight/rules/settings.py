"""Options and settings that Real-Time Mode refuses, or leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.facts import number
from eagre.preflight.finding import REFUSED, Found, rule
from eagre.sources import refused_in_real_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eagre.preflight.facts import Facts


@rule(
    "OPTION_REFUSED", "error", "The query dies in its first epoch (UnsupportedOperationException)."
)
def option_refused(facts: Facts) -> Iterator[Found]:
    """Options that limit a batch have no meaning in real time, and the Kafka source throws on them.

    `minPartitions`, `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay` and
    `endingTimestamp`: take them out of the reader. `eg.Kafka(..., options=...)` keeps them for
    micro-batches and leaves them out in real time.
    """
    for one in facts.plan.sources:
        for stated in one.options:
            if refused_in_real_time(stated):
                yield Found(
                    f"option {stated}",
                    f"the source has {stated}={one.options[stated]}, which real time refuses.",
                    "take the option out.",
                )


@rule("OPTION_LEFT_OUT", "advice", "Nothing: Eagre leaves the option out in real time.")
def option_left_out(facts: Facts) -> Iterator[Found]:
    """The option holds in micro-batches and is left out in real time, which would refuse it.

    In real time each partition is read as fast as it comes, after a long standstill too.
    """
    for name in facts.left_out:
        yield Found(
            f"option {name}",
            f"{name} is left out in real time; it holds in micro-batches.",
            "nothing to do.",
        )


@rule(
    "ALLOWLIST_OFF",
    "warning",
    "Operators that real time does not know run anyway, and may give nothing until the epoch ends.",
)
def allowlist_off(facts: Facts) -> Iterator[Found]:
    """`spark.sql.streaming.realTimeMode.allowlistCheck=false` turns refusals into log lines.

    A Python UDF then starts and withholds its rows; a range repartition starts and never ends.
    """
    key = "spark.sql.streaming.realTimeMode.allowlistCheck"
    if not facts.on(key, default=True):
        yield Found(
            key,
            "Spark's own check of operators and sinks is switched off.",
            "leave it on; this check tells the same, and why.",
            settings={key: "true"},
        )


@rule(
    "SETTING_REFUSED",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.SQL_CONFIGURATION_NOT_SUPPORTED",
)
def setting_refused(facts: Facts) -> Iterator[Found]:
    """Real time needs RocksDB, state checkpoints of format 2, and no sort before a repartition.

    Where they are not set Spark chooses them by itself, and Eagre's profile sets them for
    micro-batches too, so that one checkpoint serves both modes.
    """
    needed: dict[str, tuple[str, Callable[[str], bool]]] = {
        "spark.sql.streaming.stateStore.checkpointFormatVersion": (
            "2",
            lambda v: number(v, 2) > 1,
        ),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            lambda v: v.endswith("RocksDBStateStoreProvider"),
        ),
        "spark.sql.execution.sortBeforeRepartition": ("false", lambda v: v.lower() == "false"),
    }
    for key, (value, fits) in needed.items():
        if key in facts.settings and not fits(facts.settings[key]):
            yield Found(
                key,
                f"{key} is {facts.settings[key]} and real time needs {value}.",
                "set it so, or leave it to Spark.",
                settings={key: value},
            )


@rule(
    "ASYNC_INTERVAL",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.ASYNC_PROGRESS_TRACKING_CHECKPOINTING_INTERVAL_NON_ZERO",
)
def async_interval(facts: Facts) -> Iterator[Found]:
    """Asynchronous progress in real time writes every epoch; an interval of its own is refused."""
    name = "asyncProgressTrackingCheckpointIntervalMs"
    stateful = any(node.detail.get("stateful") for node in facts.plan.logical)
    if not stateful and number(facts.plan.option(name), 0) > 0:
        yield Found(
            f"option {name}",
            f"{name} is {facts.plan.option(name)} and must be 0 in real time.",
            "take the option out.",
        )
