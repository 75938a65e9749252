"""``eagre status`` and ``eagre stop``: the pipelines that run on this machine."""

from __future__ import annotations

import time

import click

from eagre.cli.console import say, table, write_json
from eagre.config import counted
from eagre.errors import PipelineFailed
from eagre.runtime import runs


@click.command()
@click.option("--json", "json_file", metavar="FILE", help="Also write the JSON here (-: stdout).")
def status(json_file: str | None) -> None:
    """List the pipelines that run, with their lag, commits, restarts and last failure."""
    found = runs.running()
    if json_file:
        write_json(json_file, {"runs": [run.as_dict() for run in found]})
        if json_file == "-":
            return
    rows = [
        [
            one.name,
            one.phase,
            one.mode,
            _age(one.since),
            "" if one.lag is None else f"{one.lag:,}",
            f"{one.commits:,}",
            str(one.restarts),
            str(run.pid),
        ]
        for run in found
        for one in run.pipelines.values()
    ]
    headings = ["pipeline", "phase", "mode", "for", "behind", "commits", "restarts", "pid"]
    click.echo(table(headings, rows) if rows else "no pipeline is running")
    for run in found:
        for one in run.pipelines.values():
            if one.late:
                click.echo(f"{one.name}: {counted(one.late, 'row')} came too late")
            if one.reason:
                click.echo(f"{one.name}: {one.reason}")
            if one.failure:
                click.echo(f"{one.name}: last failure: {one.failure}")


@click.command()
@click.argument("name")
@click.option(
    "--now", is_flag=True, help="End at once; the next start repeats what was not committed."
)
def stop(name: str, now: bool) -> None:
    """Drain the run of pipeline NAME: its epoch ends and commits, so that nothing is repeated.

    The other pipelines of the same `eagre run` end with it.
    """
    run = runs.find(name)
    others = sorted(set(run.pipelines) - {name})
    if others:
        say(f"ending with it, being of one run: {', '.join(others)}")
    runs.end(run, at_once=now)
    say(f"{'ending' if now else 'draining'} {name}")
    try:
        while run.alive:
            time.sleep(0.2)
    except KeyboardInterrupt:
        raise PipelineFailed(
            "STILL_DRAINING",
            f"pipeline {name!r} goes on draining by itself.",
            hint=f"`eagre stop {name} --now` ends it at once.",
        ) from None


def _age(since: float) -> str:
    seconds = max(0, int(time.time() - since))
    if seconds < 120:  # noqa: PLR2004
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"  # noqa: PLR2004
