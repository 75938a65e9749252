"""``eagre doctor``: the environment, line by line."""

from __future__ import annotations

import platform
import shutil
from typing import TYPE_CHECKING

import click

from eagre.broker import Client, registry
from eagre.cli.console import say
from eagre.config import cache_dir
from eagre.errors import EagreError
from eagre.jvm import companion_jar, find_java, jars
from eagre.jvm.archive import archive
from eagre.jvm.private_members import probe
from eagre.jvm.spark_home import spark_jars

if TYPE_CHECKING:
    from collections.abc import Callable

_GIB = 2**30


@click.command()
def doctor() -> None:
    """Look at everything a pipeline needs; exit 1 if something is missing.

    Jars that are not in the cache yet are fetched.
    """
    checks: dict[str, Callable[[], str]] = {
        "python": platform.python_version,
        "java": _java,
        "spark": lambda: str(spark_jars().parent),
        "companion": lambda: str(companion_jar()),
        "spark jars": lambda: _jars("spark"),
        "broker jars": lambda: _jars("broker"),
        "internals": _internals,
        "archive": _archive,
        "disk": _disk,
        "kafka": _kafka,
        "brokers": lambda: ", ".join(b.address for b in registry.running()) or "none running",
    }
    fine = [_report(name, check) for name, check in checks.items()]
    if not all(fine):
        raise click.exceptions.Exit(1)


def _report(name: str, check: Callable[[], str]) -> bool:
    try:
        click.echo(f"ok    {name:<12} {check()}")
    except EagreError as error:
        click.echo(f"FAIL  {name:<12} {error}")
        return False
    return True


def _java() -> str:
    java = find_java()
    return f"{java.release} in {java.home}"


def _kafka() -> str:
    """What named clusters are told, as the environment has it."""
    client = Client.to("HOST:PORT")
    client.librdkafka()
    return client.described()


def _jars(jar_set: jars.JarSet) -> str:
    return f"{len(jars.class_path(jar_set, say))} match the lock"


def _internals() -> str:
    members = probe()
    missing = [str(member) for member in members if not member.available]
    return "; ".join(missing) or f"all {len(members)} members of Spark that are not public found"


def _archive() -> str:
    path = archive()
    return str(path) if path.exists() else "none; `eagre jars fetch` makes one, for a faster start"


def _disk() -> str:
    place = next(p for p in (cache_dir(), *cache_dir().parents) if p.exists())
    return f"{shutil.disk_usage(place).free / _GIB:.1f} GiB free at {place}"
