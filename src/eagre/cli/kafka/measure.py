"""``eagre measure``: the latency of any topic's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from eagre.cli.commands import Command
from eagre.cli.console import json_option, result, say, warn
from eagre.cli.kafka.topic import cluster, topics_of
from eagre.cli.progress import Progress
from eagre.config import counted
from eagre.errors import BrokerError, SettingsError
from eagre.latency.origin import Origin
from eagre.latency.topic_meter import TopicMeter

if TYPE_CHECKING:
    from pathlib import Path

WARMUP_SECONDS = 2.0
SHOWN = 120


@click.command(
    cls=Command,
    examples=(
        "eagre measure scores",
        "eagre measure scores --time-field payment.created_at --seconds 60",
        "eagre measure flink-scores --header event-time --brokers kafka:9092 --json -",
    ),
)
@click.argument("topic")
@click.option(
    "--time-field",
    metavar="FIELD",
    help="The field of the JSON value with the time of the event; dots separate nested names.",
)
@click.option("--header", metavar="NAME", help="The header with the time of the event.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    help="How long to measure, after a warm-up of 2 s.",
)
@click.option(
    "--read-committed",
    is_flag=True,
    help="Wait for the transactions of the writer, as consumers of its results do.",
)
@json_option
@cluster
def measure(
    topic: str,
    time_field: str | None,
    header: str | None,
    seconds: float,
    read_committed: bool,
    target: str | None,
    brokers: str | None,
    config: Path | None,
) -> None:
    """Measure the latency of new records of TOPIC, whoever writes it.

    The latency is the time from the event to the receipt by this command. The time of the event is
    in a field or a header: a number in seconds, milliseconds, microseconds or nanoseconds since
    1970, or an ISO 8601 time. [default: the time of the source record in Eagre's header; without
    that, the record's timestamp]

    Ctrl-C ends the measurement early, with its figures. The clocks of this machine and of the
    event's must agree.
    """
    if time_field and header:
        raise SettingsError("TIME_TWICE", "--time-field and --header exclude each other.")
    topics = topics_of(brokers, config)
    partitions = topics.require(topic).partitions
    origin = Origin(time_field, header)
    meter = TopicMeter(
        topics.client_settings, topic, partitions, origin, committed_only=read_committed
    )
    say(f"measuring {topic!r} from {origin} to its receipt, {seconds:g} s; Ctrl-C ends it early")
    _watch(meter, topic, seconds)
    figures = _figures(meter, topic, origin, seconds)
    result(target, figures, _text(figures))


def _watch(meter: TopicMeter, topic: str, seconds: float) -> None:
    progress = Progress()
    progress.start(topic, WARMUP_SECONDS, seconds)
    try:
        for second in meter.seconds(WARMUP_SECONDS, seconds):
            progress.second(second)
    except KeyboardInterrupt:
        pass  # The figures so far count.
    finally:
        progress.close()


def _figures(meter: TopicMeter, topic: str, origin: Origin, seconds: float) -> dict[str, Any]:
    """Return the result.

    Raises:
        BrokerError: No record was measured.
    """
    total = meter.total
    if not total.records and meter.unmeasured:
        value = (meter.unreadable or b"").decode(errors="replace")[:SHOWN]
        raise SettingsError(
            "TIME_MISSING",
            f"none of {counted(meter.unmeasured, 'record')} of {topic!r} has a time in {origin}; "
            f"the last one is {value!r}.",
            hint="name another --time-field or --header; without one, the record's timestamp is "
            "used.",
        )
    if not total.records:
        raise BrokerError(
            "NO_RECORDS",
            f"no record arrived in {topic!r} while it was measured.",
            hint="only new records are measured: check that something writes, for example with "
            f"`eagre topic tail {topic}`.",
        )
    if total.negative:
        warn(
            f"{counted(total.negative, 'record')} arrived before their event: the clocks differ, "
            "and the figures are off by as much"
        )
    if meter.unmeasured:
        warn(f"{counted(meter.unmeasured, 'record')} had no time in {origin}, and do not count")
    return {
        "topic": topic,
        "origin": str(origin),
        "seconds": seconds,
        **total.summary(),
        "mean_ms": round(total.mean_ms, 3),
        "unmeasured": meter.unmeasured,
        "skipped": meter.skipped,
    }


def _text(figures: dict[str, Any]) -> str:
    columns = ("p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")
    percentiles = "   ".join(f"{name[:-3]} {figures[name]:,.1f} ms" for name in columns)
    return f"{counted(figures['records'], 'record')}   {percentiles}"
