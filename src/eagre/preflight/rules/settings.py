"""Options and settings that Real-Time Mode refuses or ignores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.connectors.kafka import refused_in_real_time
from eagre.preflight.facts import number
from eagre.preflight.finding import REFUSED, Match, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eagre.preflight.facts import Facts


@rule(
    "OPTION_REFUSED", "error", "The query fails in its first epoch (UnsupportedOperationException)."
)
def option_refused(facts: Facts) -> Iterator[Match]:
    """Options that limit a batch have no meaning in real time, and the Kafka source rejects them.

    Remove `minPartitions`, `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay` and
    `endingTimestamp` from the reader. `eg.Kafka(..., options=...)` uses them in micro-batches and
    ignores them in real time.
    """
    for stream in facts.plan.sources:
        for option, value in stream.options.items():
            if refused_in_real_time(option):
                yield Match(
                    f"option {option}",
                    f"the source has {option}={value}, which real time refuses.",
                    "remove the option.",
                )


@rule("OPTION_LEFT_OUT", "advice", "None: Eagre ignores the option in real time.")
def option_ignored(facts: Facts) -> Iterator[Match]:
    """Eagre uses the option in micro-batches and ignores it in real time, where Spark rejects it.

    In real time, Eagre reads each partition as fast as possible, also when it catches up after a
    long downtime.
    """
    for name in facts.ignored_options:
        yield Match(
            f"option {name}",
            f"{name} is ignored in real time; it applies in micro-batches.",
            "nothing to do.",
        )


@rule(
    "ALLOWLIST_OFF",
    "warning",
    "Unsupported operators run anyway, and may return nothing until the epoch ends.",
)
def allowlist_off(facts: Facts) -> Iterator[Match]:
    """`spark.sql.streaming.realTimeMode.allowlistCheck=false` turns errors into log lines.

    A Python UDF then starts, but holds back its rows. A range repartition starts and never ends.
    """
    key = "spark.sql.streaming.realTimeMode.allowlistCheck"
    if not facts.on(key, default=True):
        yield Match(
            key,
            "Spark's own check of operators and sinks is switched off.",
            "leave it on; `eagre check` reports the same problems, and their reasons.",
            settings={key: "true"},
        )


@rule(
    "SETTING_REFUSED",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.SQL_CONFIGURATION_NOT_SUPPORTED",
)
def setting_refused(facts: Facts) -> Iterator[Match]:
    """Real time needs RocksDB, state checkpoint format 2, and no sort before a repartition.

    Spark chooses these values itself unless you set others. Eagre's profile also sets them for
    micro-batches, so that one checkpoint serves both modes.
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
            yield Match(
                key,
                f"{key} is {facts.settings[key]} and real time needs {value}.",
                "set that value, or remove the setting.",
                settings={key: value},
            )


@rule(
    "ASYNC_INTERVAL",
    "error",
    REFUSED,
    "STREAMING_REAL_TIME_MODE.ASYNC_PROGRESS_TRACKING_CHECKPOINTING_INTERVAL_NON_ZERO",
)
def async_interval(facts: Facts) -> Iterator[Match]:
    """In real time, asynchronous progress tracking writes every epoch; it takes no interval."""
    name = "asyncProgressTrackingCheckpointIntervalMs"
    stateful = any(node.detail.get("stateful") for node in facts.plan.logical)
    if not stateful and number(facts.plan.option(name), 0) > 0:
        yield Match(
            f"option {name}",
            f"{name} is {facts.plan.option(name)} and must be 0 in real time.",
            "remove the option.",
        )
