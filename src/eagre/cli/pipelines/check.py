"""``eagre check`` and ``eagre explain``: findings before any data flows."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagre.cli.commands import Command
from eagre.cli.console import json_option, result, write_json
from eagre.cli.exit_codes import ExitCode
from eagre.cli.options import app_argument, brokers_option, execution_options, spark_options
from eagre.cli.pipelines.planning import reports
from eagre.config import counted, interval_ms

if TYPE_CHECKING:
    from eagre.connectors import Mode
    from eagre.preflight import Finding, Report
    from eagre.preflight.finding import Rule

COLOURS = {"error": "red", "warning": "yellow", "advice": "cyan"}


@click.command(
    cls=Command,
    examples=(
        "eagre check score.py",
        "eagre check score.py:fraud --brokers kafka:9092 --sample",
        "eagre check score.py --master local[28] --fix",
        "eagre check score.py --conf spark.sql.shuffle.partitions=4 --json -",
    ),
)
@app_argument()
@execution_options
@click.option("--sample", is_flag=True, help="Read some of the newest records to find hot keys.")
@click.option("--fix", is_flag=True, help="Print the settings and options to add.")
@json_option
@brokers_option("what the app names, else the running embedded broker")
@spark_options
def check(
    app: str,
    mode: Mode,
    every: str | None,
    brokers: str | None,
    master: str | None,
    conf: dict[str, str],
    checkpoint: str | None,
    sample: bool,
    fix: bool,
    target: str | None,
) -> None:
    """Check the pipelines of a file before any data flows.

    Spark plans each query without starting it; topics and the checkpoint are examined where they
    can be reached. Nothing is written, and no record is read unless --sample is given. Exit code
    1: at least one finding is an error, so that the query would fail at startup, skip partitions
    or lose rows.
    """
    if every:
        interval_ms(every)
    options = {"mode": mode, "every": every, "checkpoint": checkpoint, "sample": sample}
    checked = reports(app, brokers, master, conf, **options)
    ok = all(report.ok for report in checked)
    if target:
        from eagre.preflight.check import SCHEMA_VERSION

        pipelines = [report.as_dict() for report in checked]
        write_json(
            target, {"schema_version": SCHEMA_VERSION, "app": app, "ok": ok, "pipelines": pipelines}
        )
    if target != "-":
        for report in checked:
            _show(report)
    if fix:
        _show_fixes(checked, err=target == "-")
    if not ok:
        raise click.exceptions.Exit(ExitCode.FAILED)


@click.command(
    cls=Command,
    examples=("eagre explain", "eagre explain SLOTS_TOO_FEW", "eagre explain --json -"),
)
@click.argument("rule", metavar="[ID]", required=False)
@json_option
def explain(rule: str | None, target: str | None) -> None:
    """Explain a finding of the check by its ID; without one, list them all."""
    from eagre.preflight import explained, known_rules

    if rule:
        details = explained(rule)
        result(target, _described(details), _text(details))
        return
    rules = known_rules().values()
    lines = [f"{_level(r.level)} {r.id:24} {r.explanation.splitlines()[0]}" for r in rules]
    result(target, {"rules": [_described(r) for r in rules]}, "\n".join(lines))


def _described(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "level": rule.level,
        "explanation": rule.explanation,
        "consequence": rule.consequence,
        "error_class": rule.error_class,
        "real_time_only": rule.real_time_only,
    }


def _text(rule: Rule) -> str:
    lines = [
        f"{click.style(rule.id, bold=True)} ({_level(rule.level).strip()})\n",
        rule.explanation,
        f"\nIf ignored: {rule.consequence}",
    ]
    if rule.error_class:
        lines.append(f"Spark's own error: {rule.error_class}")
    return "\n".join(lines)


def _show(report: Report) -> None:
    counts = [
        counted(n, level) if level != "advice" else f"{n} advice"
        for level in COLOURS
        if (n := sum(finding.level == level for finding in report.findings))
    ]
    slots = "slots unknown"
    if report.terms:
        terms = " + ".join(map(str, report.terms))
        needed = f"{terms} = " if len(report.terms) > 1 else ""
        slots = f"{needed}{counted(sum(report.terms), 'slot')}"
        slots += f" of {report.slots}" if report.slots else ""
    click.echo(f"{report.name}: {', '.join(counts) or 'nothing found'} ({report.mode}, {slots})")
    for finding in report.findings:
        _show_finding(finding)
    for text in report.unseen:
        click.echo(f"  not seen  {text}")


def _show_finding(finding: Finding) -> None:
    where = f"  {_relative(finding.line)}" if finding.line else ""
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
        lines = ["# no setting fixes what was found"]
    for line in lines:
        click.echo(line, err=err)


def _level(level: str) -> str:
    return click.style(f"{level:8}", fg=COLOURS[level])


def _relative(line: str) -> str:
    path, _, number = line.rpartition(":")
    with contextlib.suppress(ValueError):
        path = str(Path(path).relative_to(Path.cwd()))
    return f"{path}:{number}"
