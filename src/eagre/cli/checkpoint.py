"""``eagre checkpoint``: what a checkpoint holds, and a fresh start on purpose."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagre.cli.console import project_checkpoint, say, write_json
from eagre.errors import CheckpointError

if TYPE_CHECKING:
    from eagre.commit import Checkpoint

_FOLDER = click.argument("folder", metavar="DIR_OR_PIPELINE")


@click.group()
def checkpoint() -> None:
    """Checkpoints, by folder or by the name of a pipeline of this project."""


@checkpoint.command()
@_FOLDER
@click.option("--json", "target", metavar="FILE", help="Write it as JSON (- for stdout).")
def show(folder: str, target: str | None) -> None:
    """Show what a checkpoint holds and what it is bound to."""
    described = project_checkpoint(folder).describe()
    if target:
        write_json(target, described)
    else:
        click.echo(_text(described))


@checkpoint.command()
@_FOLDER
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(folder: str, yes: bool) -> None:
    """Remove a checkpoint, so that the next run begins afresh."""
    found = project_checkpoint(folder)
    if not yes:
        click.echo(_whatever_it_holds(found))
        click.confirm("Remove it? Offsets and state are gone then.", abort=True)
    found.reset()
    say(f"removed {found.path}")


@checkpoint.command()
@_FOLDER
@click.argument("target", type=click.Path(path_type=Path))
def copy(folder: str, target: Path) -> None:
    """Copy a checkpoint; its pipeline should not run meanwhile."""
    found = project_checkpoint(folder)
    found.copy(target)
    say(f"copied {found.path} to {target}")


def _whatever_it_holds(found: Checkpoint) -> str:
    """Describe a checkpoint, also a broken one: removing it may be the repair."""
    try:
        return _text(found.describe())
    except CheckpointError as error:
        if not found.exists and not found.lost:
            raise
        return error.problem


def _text(described: dict[str, Any]) -> str:
    lines = [
        f"checkpoint  {described['path']} ({described['bytes']:,} bytes)",
        f"committed   {_batches(described['batch'])}",
        f"state       {'yes' if described['stateful'] else 'none'}",
    ]
    binding = described["binding"]
    if binding:
        made = datetime.fromtimestamp(binding["made"], UTC)
        lines.append(f"pipeline    {binding['pipeline']}")
        lines.append(f"cluster     {binding['cluster']}")
        lines.append(f"made        {made:%Y-%m-%d %H:%M:%S} UTC")
    shuffle = described["settings"].get("spark.sql.shuffle.partitions")
    if shuffle:
        lines.append(f"shuffle     {shuffle} partitions (fixed by this checkpoint)")
    offsets = described["offsets"] or (binding and binding["start"]) or {}
    for topic, partitions in offsets.items():
        lines.extend(f"offset      {topic}/{p}: {o:,}" for p, o in partitions.items())
    return "\n".join(lines)


def _batches(batch: int) -> str:
    return "nothing yet" if batch < 0 else f"up to batch {batch}"
