"""``eagre status`` and ``eagre stop``: the pipelines that run on this machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from eagre.cli.commands import Command
from eagre.cli.console import detail, json_option, result, say, table, write_json
from eagre.config import counted, state_dir
from eagre.errors import PipelineFailed
from eagre.runtime import runs

if TYPE_CHECKING:
    from eagre.runtime.runs import PipelineStatus, RunStatus


def _running(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a running pipeline."""
    return sorted(n for run in runs.running() for n in run.pipelines if n.startswith(incomplete))


@click.command(cls=Command, examples=("eagre status", "eagre status --json -"))
@json_option
def status(target: str | None) -> None:
    """List the running pipelines with their lag, commits, restarts and last ten failures."""
    detail(f"runs are registered in {state_dir()}")
    active = runs.running()
    result(target, {"runs": [run.as_dict() for run in active]}, "\n".join(_lines(active)))


def _lines(active: list[RunStatus]) -> list[str]:
    pipelines = [(run, pipeline) for run in active for pipeline in run.pipelines.values()]
    if not pipelines:
        return ["no pipeline is running"]
    headings = ["pipeline", "phase", "mode", "for", "lag", "commits", "restarts", "pid"]
    rows = [
        [
            pipeline.name,
            pipeline.phase,
            pipeline.mode,
            _age(pipeline.since),
            "" if pipeline.lag is None else f"{pipeline.lag:,}",
            f"{pipeline.commits:,}",
            str(pipeline.restarts),
            str(run.pid),
        ]
        for run, pipeline in pipelines
    ]
    lines = [table(headings, rows)]
    for _, pipeline in pipelines:
        if pipeline.late:
            lines.append(f"{pipeline.name}: {counted(pipeline.late, 'late row')}")
        if pipeline.overdue:
            lines.append(f"{pipeline.name}: {pipeline.overdue}")
        if pipeline.reason:
            lines.append(f"{pipeline.name}: {pipeline.reason}")
        if pipeline.failure:
            lines.append(f"{pipeline.name}: last failure: {pipeline.failure}")
        lines += _failures(pipeline)
    return lines


def _failures(pipeline: PipelineStatus) -> list[str]:
    """Return the last failures with their times, newest first."""
    return [
        f"{pipeline.name}: failed {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC: {reason}"
        for at, reason in reversed(pipeline.failures)
    ]


@click.command(cls=Command, examples=("eagre stop score", "eagre stop score --now"))
@click.argument("name", shell_complete=_running)
@click.option(
    "--now",
    is_flag=True,
    help="Stop immediately; the next start repeats what was not committed.",
)
@json_option
def stop(name: str, now: bool, target: str | None) -> None:
    """Drain the run of pipeline NAME: finish and commit the rows in flight, then stop.

    The other pipelines of the same `eagre run` stop with it.
    """
    run = runs.find(name)
    others = sorted(set(run.pipelines) - {name})
    if others:
        say(f"stopping with it, because they share a run: {', '.join(others)}")
    runs.end(run, at_once=now)
    say(f"{'stopping' if now else 'draining'} {name}")
    try:
        while run.alive:
            time.sleep(0.2)
    except KeyboardInterrupt:
        raise PipelineFailed(
            "STILL_DRAINING",
            f"pipeline {name!r} continues to drain on its own.",
            hint=f"`eagre stop {name} --now` stops it immediately.",
        ) from None
    if target:
        write_json(target, {"stopped": sorted(run.pipelines), "at_once": now})


def _age(since: float) -> str:
    seconds = max(0, int(time.time() - since))
    if seconds < 120:  # noqa: PLR2004
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"  # noqa: PLR2004
