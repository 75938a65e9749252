"""``eagre jars``: the jars that Eagre adds to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from eagre.cli.commands import Group
from eagre.cli.console import detail, json_option, result, say, write_json
from eagre.errors import JvmError
from eagre.jvm import jars as locked
from eagre.jvm.companion import companion_jar

_SET = click.argument(
    "jar_set",
    metavar="[SET]",
    type=click.Choice((*locked.JAR_SETS, *locked.OPTIONAL_SETS)),
    required=False,
)


@click.group(cls=Group)
def jars() -> None:
    """Fetch and verify the jars that Eagre adds to Spark, pinned by their checksums."""


@jars.command(examples=("eagre jars fetch", "eagre jars fetch spark --from /media/jars"))
@_SET
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder that holds the jars, where there is no network.",
)
@click.option(
    "--archive/--no-archive",
    default=True,
    help="Also write the start-up archive, so that Spark starts faster (takes a minute, once).",
)
@json_option
def fetch(jar_set: str | None, source: Path | None, target: str | None, *, archive: bool) -> None:
    """Fetch the jars into the user's cache, and prepare a faster start of Spark."""
    show = say if target == "-" else click.echo
    sets = {}
    for name in _sets(jar_set):
        locked.fetch(name, say, source)
        locked.verify(name)
        sets[name] = {"jars": len(locked.lock(name)), "folder": str(locked.folder(name))}
        show(f"{name}: {sets[name]['jars']} jars in {sets[name]['folder']}")
    archived = _prepare_archive() if archive and jar_set in (None, "spark") else None
    if archived:
        show(f"archive: {archived.stat().st_size >> 20} MB, {archived}")
    if target:
        write_json(target, {"sets": sets, "archive": archived and str(archived)})


@jars.command(examples=("eagre jars verify", "eagre jars verify broker --json -"))
@_SET
@json_option
def verify(jar_set: str | None, target: str | None) -> None:
    """Compare every cached jar with its checksum; one changed byte is an error."""
    sets = {}
    for name in _sets(jar_set):
        locked.verify(name)
        detail(f"{name}: {', '.join(jar.name for jar in locked.lock(name))}")
        sets[name] = {"jars": len(locked.lock(name)), "folder": str(locked.folder(name))}
    companion = str(companion_jar())
    lines = [f"{name}: {cached['jars']} jars match the lock" for name, cached in sets.items()]
    result(
        target,
        {"ok": True, "sets": sets, "companion": companion},
        "\n".join([*lines, f"companion: {companion}"]),
    )


@jars.command(examples=("eagre jars path", "eagre jars path broker"))
@_SET
@json_option
def path(jar_set: str | None, target: str | None) -> None:
    """Print the class path of a set (spark if none is named), for use outside Eagre."""
    name = cast("locked.JarSet", jar_set or "spark")
    extra = [companion_jar()] if name == "spark" else []
    jars = [str(jar) for jar in [*locked.class_path(name, say), *extra]]
    result(target, {"set": name, "jars": jars}, ":".join(jars))


def _prepare_archive() -> Path | None:
    """Write the start-up archive, if it can be written."""
    from eagre.jvm.archive import archive
    from eagre.startup_training import train

    if not archive().exists():
        say("writing the start-up archive, once for this Java and these jars")
    try:
        return train()
    except JvmError as error:
        say(str(error))
        return None


def _sets(jar_set: str | None) -> tuple[locked.JarSet, ...]:
    return (cast("locked.JarSet", jar_set),) if jar_set else locked.JAR_SETS
