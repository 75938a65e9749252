"""``eagre size`` and ``eagre advise``: task slots, state size and execution mode."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from eagre.cli.commands import Command, Option
from eagre.cli.console import json_option, result
from eagre.cli.options import app_argument, brokers_option, spark_options, together
from eagre.cli.pipelines.planning import reports
from eagre.config import interval_ms
from eagre.errors import SettingsError

if TYPE_CHECKING:
    from eagre.preflight import Report
    from eagre.preflight.advise import Advice
    from eagre.preflight.size import Size

_brokers = brokers_option("what the app names, else the running embedded broker")
_count = partial(click.option, type=click.IntRange(1), metavar="N")
_state = partial(click.option, cls=Option, group="State")

_partition_options = together(
    _count("--source-partitions", help="Partitions of all source topics."),
    _count("--shuffle-partitions", help="Partitions of each shuffle."),
    _count("--shuffles", type=click.IntRange(0), help="How many shuffles. [default: 1 if any]"),
    _count("--cores-per-executor", default=4, show_default=True, help="Cores of each executor."),
)
_state_options = together(
    _state(
        "--keys",
        type=click.IntRange(0),
        metavar="N",
        default=0,
        help="Keys in the state at the same time.",
    ),
    _state(
        "--keys-per-second",
        type=click.FloatRange(0),
        metavar="N",
        default=0.0,
        help="New keys per second; needs --ttl.",
    ),
    _state("--ttl", metavar="INTERVAL", help="How long a key lives."),
    _state(
        "--bytes-per-key",
        type=click.IntRange(1),
        metavar="N",
        default=200,
        show_default=True,
        help="State of one key.",
    ),
)


@click.command(
    cls=Command,
    examples=(
        "eagre size score.py",
        "eagre size --source-partitions 8 --shuffle-partitions 20 --shuffles 2",
        "eagre size score.py --keys-per-second 100 --ttl '1 hour' --json -",
    ),
)
@app_argument("[APP.py[:PIPELINE]]", required=False)
@_partition_options
@_state_options
@_brokers
@spark_options
@json_option
def size(
    app: str | None,
    brokers: str | None,
    master: str | None,
    conf: dict[str, str],
    target: str | None,
    **numbers: Any,  # noqa: ANN401  (the options for partitions and state)
) -> None:
    """Add up the task slots that a pipeline needs, from its plan and topics or from numbers.

    In real time every partition of every stage holds a slot for as long as the query runs: 8
    source + 20 shuffle = 28.
    """
    common = _common(app, **numbers)
    partitions = numbers["source_partitions"]
    if app is None:
        sizes = {"": _from_numbers(common, **numbers)}
    else:
        checked = reports(app, brokers, master, conf)
        sizes = {report.name: _sized(report, partitions, common) for report in checked}
    pipelines = {name: size.as_dict() for name, size in sizes.items()}
    first = next(iter(pipelines.values()))
    lines = [[*([name] if name else []), *size.lines()] for name, size in sizes.items()]
    result(
        target,
        first if len(pipelines) == 1 else {**_total(pipelines), "pipelines": pipelines},
        "\n".join(line for block in lines for line in block),
    )


@click.command(
    cls=Command,
    examples=(
        "eagre advise score.py",
        "eagre advise score.py --p99 100 --rate 5000 --core-hour 0.04",
    ),
)
@app_argument()
@click.option(
    "--p99",
    type=click.FloatRange(0, min_open=True),
    default=1000.0,
    show_default=True,
    metavar="MS",
    help="The latency target at the 99th percentile, in ms.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=1000.0,
    show_default=True,
    metavar="N",
    help="Records per second.",
)
@click.option(
    "--core-hour",
    type=click.FloatRange(0),
    default=0.05,
    show_default=True,
    metavar="PRICE",
    help="What a core costs for an hour.",
)
@_brokers
@spark_options
@json_option
def advise(
    app: str,
    p99: float,
    rate: float,
    core_hour: float,
    brokers: str | None,
    master: str | None,
    conf: dict[str, str],
    target: str | None,
) -> None:
    """Recommend a mode for a latency target: real-time, micro-batch or available-now."""
    from eagre.preflight.advise import Requirements
    from eagre.preflight.advise import advise as recommend

    requirements = Requirements(p99, rate, core_hour)
    checked = reports(app, brokers, master, conf)
    advice = {report.name: recommend(report, requirements) for report in checked}
    pipelines = {name: entry.as_dict() for name, entry in advice.items()}
    result(
        target,
        next(iter(pipelines.values())) if len(pipelines) == 1 else {"pipelines": pipelines},
        "\n".join(line for name, entry in advice.items() for line in _lines(name, entry)),
    )


def _lines(name: str, advice: Advice) -> list[str]:
    lines = [f"{name}: {click.style(advice.choice, bold=True)}"]
    for heading, items in (
        ("", advice.reasons),
        ("calculation", advice.arithmetic),
        ("assumptions", advice.assumptions),
    ):
        lines += [*([f"  {heading}:"] if heading else []), *(f"  - {item}" for item in items)]
    return lines


def _common(app: str | None, **numbers: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the arguments that the sizes of all pipelines share.

    Raises:
        SettingsError: The options contradict each other.
    """
    from eagre.preflight.size import keys_alive

    ttl = numbers["ttl"]
    if numbers["keys_per_second"] and not ttl:
        raise SettingsError("TTL_MISSING", "--keys-per-second needs --ttl: how long a key lives.")
    if numbers["shuffles"] and not numbers["shuffle_partitions"]:
        raise SettingsError("SHUFFLE_PARTITIONS_MISSING", "--shuffles needs --shuffle-partitions.")
    if app and numbers["shuffle_partitions"]:
        raise SettingsError(
            "SIZE_OF_WHAT",
            "the shuffles of an app are in its plan.",
            hint="drop --shuffle-partitions; --conf spark.sql.shuffle.partitions=N sets them.",
        )
    alive = keys_alive(numbers["keys"], numbers["keys_per_second"], interval_ms(ttl) if ttl else 0)
    return {
        "cores_per_executor": numbers["cores_per_executor"],
        "keys": alive,
        "bytes_per_key": numbers["bytes_per_key"],
    }


def _from_numbers(
    common: dict[str, Any],
    source_partitions: int | None,
    shuffle_partitions: int | None,
    shuffles: int | None,
    **_: object,
) -> Size:
    from eagre.preflight.size import Size

    if source_partitions is None:
        raise SettingsError(
            "SIZE_OF_WHAT",
            "name an app, or the numbers.",
            hint="eagre size --source-partitions 8 --shuffle-partitions 20 --shuffles 2",
        )
    count = (1 if shuffle_partitions else 0) if shuffles is None else shuffles
    return Size.of(source_partitions, [shuffle_partitions or 1] * count, **common)


def _sized(report: Report, partitions: int | None, common: dict[str, Any]) -> Size:
    from eagre.preflight.size import Size

    if report.terms is None and partitions is None:
        raise SettingsError(
            "TOPICS_UNSEEN",
            f"the partitions of {report.name}'s topics are not known: {'; '.join(report.unseen)}.",
            hint="name the cluster with --brokers, or the number with --source-partitions.",
        )
    source = partitions or (report.terms or (1,))[0]
    size = Size.of(source, list(report.shuffles), **common)
    return (
        replace(size, given=(report.executors, report.slots or 0))
        if report.executors is not None
        else size
    )


def _total(pipelines: dict[str, Any]) -> dict[str, Any]:
    return {
        "slots": sum(size["slots"] for size in pipelines.values()),
        "terms": [term for size in pipelines.values() for term in size["terms"]],
    }
