"""``eagre checkpoint``: show, copy and reset checkpoints."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagre.cli.commands import Group
from eagre.cli.console import json_option, project_checkpoint, report, result, say
from eagre.cli.pipelines.planning import quiet
from eagre.commit.location import session_settings
from eagre.errors import CheckpointError
from eagre.jvm.jars import class_path

if TYPE_CHECKING:
    from eagre.commit import Checkpoint

_FOLDER = click.argument("folder", metavar="DIR_OR_PIPELINE")


@click.group(cls=Group)
def checkpoint() -> None:
    """Show, copy and reset checkpoints, by folder or by pipeline of this project."""


@checkpoint.command(examples=("eagre checkpoint show score", "eagre checkpoint show DIR --json -"))
@_FOLDER
@json_option
def show(folder: str, target: str | None) -> None:
    """Show what a checkpoint holds and the pipeline it is bound to."""
    described = _selected(folder).describe()
    result(target, described, _text(described))


@checkpoint.command(examples=("eagre checkpoint reset score", "eagre checkpoint reset DIR --yes"))
@_FOLDER
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def reset(folder: str, yes: bool, target: str | None) -> None:
    """Remove a checkpoint, so that the next run starts from scratch."""
    selected = _selected(folder)
    if not yes:
        click.echo(_description(selected), err=True)
        click.confirm("Remove this checkpoint with its offsets and state?", abort=True, err=True)
    selected.reset()
    report(target, {"removed": str(selected.path)}, f"removed {selected.path}")


@checkpoint.command(examples=("eagre checkpoint copy score saved",))
@_FOLDER
@click.argument("destination", metavar="TARGET", type=click.Path(path_type=Path))
@json_option
def copy(folder: str, destination: Path, target: str | None) -> None:
    """Copy a checkpoint; stop its pipeline first."""
    selected = _selected(folder)
    selected.copy(destination)
    report(
        target,
        {"checkpoint": str(selected.path), "copy": str(destination)},
        f"copied {selected.path} to {destination}",
    )


@checkpoint.command(examples=("eagre checkpoint adopt score", "eagre checkpoint adopt DIR"))
@_FOLDER
@json_option
def adopt(folder: str, target: str | None) -> None:
    """Write the newest mid-epoch commit into Spark's logs, for a start without `eagre run`."""
    selected = _selected(folder)
    with selected.held():
        batch = selected.adopt()
    report(
        target,
        {"checkpoint": str(selected.path), "batch": batch},
        f"Spark continues {selected.path} after batch {batch}"
        if batch is not None
        else f"Spark's logs in {selected.path} already have the newest commit",
    )


@checkpoint.command(examples=("eagre checkpoint repartition score 8",))
@_FOLDER
@click.argument("partitions", type=click.IntRange(min=1))
@json_option
def repartition(folder: str, partitions: int, target: str | None) -> None:
    """Change the number of shuffle partitions of a stopped pipeline with state."""
    from eagre.commit.offset_log import unchanged_on_error
    from eagre.jvm import gateway
    from eagre.session import session

    selected = _selected(folder)
    with selected.held():
        selected.adopt()
        try:
            with unchanged_on_error(selected.path):
                gateway.repartition(session("repartition"), str(selected.path), partitions)
        except Exception as error:
            raise CheckpointError(
                "CHECKPOINT_NOT_REPARTITIONED",
                f"Spark cannot repartition {selected.path}: {gateway.reason(error)}",
                hint="nothing has changed. Spark repartitions the state of `eg` operators and "
                "processors, not that of `groupBy().agg()` in real time.",
            ) from error
    report(
        target,
        {"checkpoint": str(selected.path), "partitions": partitions},
        f"{selected.path} has {partitions} shuffle partitions now",
    )


def _selected(folder: str) -> Checkpoint:
    """Return a checkpoint; one in a store is read through Spark."""
    settings = session_settings(folder)
    if settings:
        from eagre.session import session

        class_path("s3", say)
        say(f"starting Spark to reach {folder}")
        with quiet():
            session("eagre-checkpoint", "local[2]", **settings)
    return project_checkpoint(folder)


def _description(selected: Checkpoint) -> str:
    """Describe a checkpoint, even a broken one, because a reset may repair it."""
    try:
        return _text(selected.describe())
    except CheckpointError as error:
        if not selected.exists and not selected.lost:
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
        lines.append(f"shuffle     {shuffle} partitions (in this checkpoint)")
    offsets = described["offsets"] or (binding and binding["start"]) or {}
    for topic, partitions in offsets.items():
        lines.extend(f"offset      {topic}/{p}: {o:,}" for p, o in partitions.items())
    return "\n".join(lines)


def _batches(batch: int) -> str:
    return "nothing yet" if batch < 0 else f"up to batch {batch}"
