"""``eagre check``, ``explain``, ``size`` and ``advise``: know before the first record."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagre.broker import registry
from eagre.cli.console import say, write_json
from eagre.config import counted, interval_ms, project_dir
from eagre.errors import SettingsError
from eagre.jvm.jars import class_path
from eagre.pipeline import MODES
from eagre.runtime.app import App
from eagre.runtime.spec import RunSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.pipeline import Pipeline
    from eagre.preflight import Finding, Report
    from eagre.sources import Mode

COLOURS = {"error": "red", "warning": "yellow", "advice": "cyan"}

_app = click.argument("app", metavar="APP.py[:PIPELINE]")
_brokers = click.option(
    "--brokers",
    envvar="EAGRE_BROKERS",
    metavar="HOST:PORT",
    help="The Kafka cluster. [default: what the app names, else the running embedded broker]",
)
_master = click.option("--master", help="Spark's master. [default: local, with slots enough]")
_json = click.option(
    "--json", "target", metavar="FILE", help="Write the result as JSON; - for stdout."
)


@click.command()
@_app
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="real-time",
    show_default=True,
    help="How it will run.",
)
@click.option(
    "--every", metavar="INTERVAL", help="The epoch or trigger. [default: 1 minute; 500 ms]"
)
@_brokers
@_master
@click.option("--checkpoint", metavar="DIR", help="The checkpoint that it will use.")
@click.option(
    "--sample", is_flag=True, help="Read some of the newest records, to look for hot keys."
)
@click.option("--fix", is_flag=True, help="Print the settings and options to add.")
@_json
def check(
    app: str,
    mode: Mode,
    every: str | None,
    brokers: str | None,
    master: str | None,
    checkpoint: str | None,
    sample: bool,
    fix: bool,
    target: str | None,
) -> None:
    """Look at the pipelines of a file before any data flows.

    Spark plans each query without starting it; topics and checkpoint are looked at where they can
    be. Nothing is written, and no record is read unless a sample is asked for. Exit code 1: at
    least one finding is an error, and the query would be refused, starve, or lose rows.
    """
    if every:
        interval_ms(every)
    options = {"mode": mode, "every": every, "checkpoint": checkpoint, "sample": sample}
    reports = _checked(app, brokers, master, options)
    if target:
        from eagre.preflight.check import SCHEMA_VERSION

        ok = all(report.ok for report in reports)
        found = [report.as_dict() for report in reports]
        write_json(
            target, {"schema_version": SCHEMA_VERSION, "app": app, "ok": ok, "pipelines": found}
        )
    if target != "-":
        for report in reports:
            _show(report)
    if fix:
        _show_fixes(reports, err=target == "-")
    if not all(report.ok for report in reports):
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("rule", metavar="ID", required=False)
def explain(rule: str | None) -> None:
    """Tell all about a finding, by its ID; without one, list them."""
    from eagre.preflight import explained, known_rules

    if rule is None:
        for one in known_rules().values():
            first = one.explanation.splitlines()[0]
            click.echo(f"{_level(one.level)} {one.id:24} {first}")
        return
    found = explained(rule)
    click.echo(f"{click.style(found.id, bold=True)} ({_level(found.level).strip()})\n")
    click.echo(found.explanation)
    click.echo(f"\nIf ignored: {found.consequence}")
    if found.error_class:
        click.echo(f"Spark's own error: {found.error_class}")


@click.command()
@click.argument("app", metavar="[APP.py[:PIPELINE]]", required=False)
@click.option(
    "--source-partitions", type=click.IntRange(1), help="Partitions of all source topics."
)
@click.option("--shuffle-partitions", type=click.IntRange(1), help="Partitions of each shuffle.")
@click.option("--shuffles", type=click.IntRange(0), help="How many shuffles. [default: 1 if any]")
@click.option(
    "--cores-per-executor",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="Cores of each executor.",
)
@click.option("--keys", type=click.IntRange(0), default=0, help="Keys alive at once in the state.")
@click.option(
    "--keys-per-second", type=click.FloatRange(0), default=0.0, help="New keys; with --ttl."
)
@click.option("--ttl", metavar="INTERVAL", help="How long a key lives.")
@click.option(
    "--bytes-per-key",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="State of one key.",
)
@_brokers
@_master
@_json
def size(
    app: str | None,
    source_partitions: int | None,
    shuffle_partitions: int | None,
    shuffles: int | None,
    cores_per_executor: int,
    keys: int,
    keys_per_second: float,
    ttl: str | None,
    bytes_per_key: int,
    brokers: str | None,
    master: str | None,
    target: str | None,
) -> None:
    """Add up the task slots a pipeline needs, from its plan and topics or from numbers.

    In real time every partition of every stage holds a slot for good: 8 source + 20 shuffle = 28.
    """
    from eagre.preflight.size import Size, keys_alive

    if keys_per_second and not ttl:
        raise SettingsError("TTL_MISSING", "--keys-per-second needs --ttl: how long a key lives.")
    if shuffles and not shuffle_partitions:
        raise SettingsError("SHUFFLE_PARTITIONS_MISSING", "--shuffles needs --shuffle-partitions.")
    if app and shuffle_partitions:
        raise SettingsError(
            "SIZE_OF_WHAT",
            "the shuffles of an app are in its plan.",
            hint="leave out --shuffle-partitions; spark.sql.shuffle.partitions sets them.",
        )
    alive = keys_alive(keys, keys_per_second, interval_ms(ttl) if ttl else 0)
    common: dict[str, Any] = {
        "cores_per_executor": cores_per_executor,
        "keys": alive,
        "bytes_per_key": bytes_per_key,
    }
    if app is None:
        if source_partitions is None:
            raise SettingsError(
                "SIZE_OF_WHAT",
                "name an app, or the numbers.",
                hint="eagre size --source-partitions 8 --shuffle-partitions 20 --shuffles 2",
            )
        many = (1 if shuffle_partitions else 0) if shuffles is None else shuffles
        shuffled = [shuffle_partitions or 1] * many
        sizes = {"": Size.of(source_partitions, shuffled, **common)}
    else:
        sizes = {
            report.name: _sized(report, source_partitions, common)
            for report in _checked(app, brokers, master, {})
        }
    if target:
        each = {name: one.as_dict() for name, one in sizes.items()}
        first = next(iter(each.values()))
        write_json(target, first if len(each) == 1 else {**_added(each), "pipelines": each})
    if target != "-":
        for name, one in sizes.items():
            click.echo("\n".join([*([name] if name else []), *one.lines()]))


@click.command()
@_app
@click.option(
    "--p99",
    type=click.FloatRange(0, min_open=True),
    default=1000.0,
    show_default=True,
    metavar="MS",
    help="The latency that 99 of 100 records must keep.",
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
@_master
@_json
def advise(
    app: str,
    p99: float,
    rate: float,
    core_hour: float,
    brokers: str | None,
    master: str | None,
    target: str | None,
) -> None:
    """Say which mode is worth its price: real time, micro-batches, or a run now and then."""
    from eagre.preflight.advise import Requirements
    from eagre.preflight.advise import advise as weigh

    wish = Requirements(p99, rate, core_hour)
    reports = _checked(app, brokers, master, {})
    told = {report.name: weigh(report, wish) for report in reports}
    if target:
        each = {name: one.as_dict() for name, one in told.items()}
        write_json(target, next(iter(each.values())) if len(each) == 1 else {"pipelines": each})
    if target == "-":
        return
    for name, one in told.items():
        click.echo(f"{name}: {click.style(one.choice, bold=True)}")
        for heading, lines in (
            ("", one.reasons),
            ("the sums", one.arithmetic),
            ("taken for granted", one.assumptions),
        ):
            click.echo(
                "\n".join([*([f"  {heading}:"] if heading else []), *(f"  - {t}" for t in lines)])
            )


def _sized(report: Report, partitions: int | None, common: dict[str, Any]) -> Any:  # noqa: ANN401
    from eagre.preflight.size import Size

    if report.terms is None and partitions is None:
        raise SettingsError(
            "TOPICS_UNSEEN",
            f"the partitions of {report.name}'s topics are not known: {'; '.join(report.unseen)}.",
            hint="name the cluster with --brokers, or the number with --source-partitions.",
        )
    source = partitions or (report.terms or (1,))[0]
    return Size.of(source, list(report.shuffles), **common)


def _added(each: dict[str, Any]) -> dict[str, Any]:
    return {
        "slots": sum(one["slots"] for one in each.values()),
        "terms": [term for one in each.values() for term in one["terms"]],
    }


def _checked(
    app: str, brokers: str | None, master: str | None, options: dict[str, Any]
) -> list[Report]:
    """Load the app, start a session, and check its pipelines in it."""
    chosen = App.parse(app)
    chosen.check_readable()
    class_path("spark", say)
    say("planning without starting anything")
    from eagre.preflight import check as look
    from eagre.session import session

    with _quiet():
        spark = session("eagre-check", master)
    try:
        everything = chosen.pipelines()
        pipelines, several = chosen.choose(everything), len(everything) > 1
        return [
            look(pipeline, spark, **_options(pipeline, brokers, options, several=several))
            for pipeline in pipelines
        ]
    finally:
        with _quiet():
            spark.stop()


def _options(
    pipeline: Pipeline, brokers: str | None, options: dict[str, Any], *, several: bool
) -> dict[str, Any]:
    running = registry.serving(project_dir() / "broker")
    found = brokers or (running.address if pipeline.needs_brokers and running else None)
    spec = RunSpec(app="", checkpoint=options.get("checkpoint"))
    folder = spec.checkpoint_folder(pipeline.name, several=several)
    return {**options, "brokers": found, "checkpoint": str(folder)}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what the JVM writes from here on to a log; it keeps the descriptors it was born with."""
    folder = project_dir() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with (folder / "check.log").open("ab") as log:
        try:
            for number in (1, 2):
                os.dup2(log.fileno(), number)
            yield
        finally:
            for number, old in zip((1, 2), kept, strict=True):
                os.dup2(old, number)
                os.close(old)


def _show(report: Report) -> None:
    counts = [
        counted(n, level) if level != "advice" else f"{n} advice"
        for level in COLOURS
        if (n := sum(finding.level == level for finding in report.findings))
    ]
    slots = "slots unknown"
    if report.terms:
        sum_ = " + ".join(map(str, report.terms))
        needed = f"{sum_} = " if len(report.terms) > 1 else ""
        slots = f"{needed}{counted(sum(report.terms), 'slot')}"
        slots += f" of {report.slots}" if report.slots else ""
    click.echo(f"{report.name}: {', '.join(counts) or 'nothing found'} ({report.mode}, {slots})")
    for finding in report.findings:
        _show_finding(finding)
    for text in report.unseen:
        click.echo(f"  not seen  {text}")


def _show_finding(finding: Finding) -> None:
    where = f"  {_short(finding.line)}" if finding.line else ""
    click.echo(f"  {_level(finding.level)} {click.style(finding.id, bold=True)}{where}")
    click.echo(f"           {finding.problem}")
    click.echo(f"           if ignored: {finding.consequence}")
    click.echo(f"           to do: {finding.remedy}")
    if finding.error_class:
        click.echo(f"           Spark's error: {finding.error_class}")


def _show_fixes(reports: list[Report], *, err: bool) -> None:
    settings = {key: value for report in reports for key, value in report.fixes.items()}
    options = {
        key: value
        for report in reports
        for f in report.findings
        for key, value in f.options.items()
    }
    lines = [f"{key} {value}" for key, value in settings.items()]
    lines += [f"# eg.Kafka(..., options={{{key!r}: {value!r}}})" for key, value in options.items()]
    if not lines and any(report.findings for report in reports):
        lines = ["# no setting mends what was found"]
    for line in lines:
        click.echo(line, err=err)


def _level(level: str) -> str:
    return click.style(f"{level:8}", fg=COLOURS[level])


def _short(line: str) -> str:
    path, _, number = line.rpartition(":")
    with contextlib.suppress(ValueError):
        path = str(Path(path).relative_to(Path.cwd()))
    return f"{path}:{number}"
