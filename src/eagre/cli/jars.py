"""``eagre jars``: the jars Eagre adds to a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from eagre.cli.console import say
from eagre.errors import JvmError
from eagre.jvm import jars as locked
from eagre.jvm.companion import companion_jar

_SET = click.argument(
    "jar_set", metavar="[SET]", type=click.Choice(locked.JAR_SETS), required=False
)


@click.group()
def jars() -> None:
    """The locked jars: fetched once per user, verified before each use."""


@jars.command()
@_SET
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder that holds the jars, to do without a network.",
)
@click.option(
    "--archive/--no-archive",
    default=True,
    help="Write the start-up archive too, with which Spark starts faster (a minute, once).",
)
def fetch(jar_set: str | None, source: Path | None, *, archive: bool) -> None:
    """Bring the jars into the user's cache, and prepare what lets Spark start faster."""
    for one in _sets(jar_set):
        locked.fetch(one, say, source)
        locked.verify(one)
        click.echo(f"{one}: {len(locked.lock(one))} jars in {locked.folder(one)}")
    if archive and jar_set in (None, "spark"):
        _prepare_archive()


@jars.command()
@_SET
def verify(jar_set: str | None) -> None:
    """Compare every cached jar with the lock; one changed byte is an error."""
    for one in _sets(jar_set):
        locked.verify(one)
        click.echo(f"{one}: {len(locked.lock(one))} jars match the lock")
    click.echo(f"companion: {companion_jar()}")


@jars.command()
@_SET
def path(jar_set: str | None) -> None:
    """Print the class path of a set (spark if none is named), for use outside Eagre."""
    chosen = cast("locked.JarSet", jar_set or "spark")
    extra = [companion_jar()] if chosen == "spark" else []
    click.echo(":".join(map(str, [*locked.class_path(chosen, say), *extra])))


def _prepare_archive() -> None:
    from eagre.jvm.archive import archive
    from eagre.startup_training import train

    if not archive().exists():
        say("writing the start-up archive, once for this Java and these jars")
    try:
        path = train()
    except JvmError as error:
        say(str(error))
        return
    click.echo(f"archive: {path.stat().st_size >> 20} MB, {path}")


def _sets(jar_set: str | None) -> tuple[locked.JarSet, ...]:
    return (cast("locked.JarSet", jar_set),) if jar_set else locked.JAR_SETS
