"""``eagre doctor``: checks the environment."""

from __future__ import annotations

import platform
import shutil
from typing import TYPE_CHECKING, Any

import click

from eagre.broker import ClientSettings, registry
from eagre.cli.commands import Command
from eagre.cli.console import detail, json_option, say, write_json
from eagre.cli.exit_codes import ExitCode
from eagre.config import cache_dir, project_dir, state_dir
from eagre.errors import EagreError
from eagre.jvm import companion_jar, find_java, jars
from eagre.jvm.archive import archive
from eagre.jvm.private_members import probe
from eagre.jvm.spark_home import spark_jars

if TYPE_CHECKING:
    from collections.abc import Callable

_GIB = 2**30


@click.command(cls=Command, examples=("eagre doctor", "eagre doctor --json -"))
@json_option
def doctor(target: str | None) -> None:
    """Check everything that a pipeline needs; exit code 1 if something is missing.

    Jars that are not in the cache yet are fetched.
    """
    detail(f"cache {cache_dir()}, state {state_dir()}, project {project_dir()}")
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
    reports = [_report(name, check, shown=target != "-") for name, check in checks.items()]
    ok = all(report["ok"] for report in reports)
    if target:
        write_json(target, {"ok": ok, "checks": reports})
    if not ok:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _report(name: str, check: Callable[[], str], *, shown: bool) -> dict[str, Any]:
    """Run a check and print its result immediately, because some checks are slow."""
    try:
        ok, status = True, check()
    except EagreError as error:
        ok, status = False, str(error)
    if shown:
        click.echo(f"{'ok' if ok else 'FAIL':<4}  {name:<12} {status}")
    return {"name": name, "ok": ok, "detail": status}


def _java() -> str:
    java = find_java()
    return f"{java.release} in {java.home}"


def _kafka() -> str:
    """Return how clients log in to a cluster with the settings of the environment."""
    client = ClientSettings.to("HOST:PORT")
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
    return str(path) if path.exists() else "none; `eagre jars fetch` writes one, for a faster start"


def _disk() -> str:
    folder = next(p for p in (cache_dir(), *cache_dir().parents) if p.exists())
    return f"{shutil.disk_usage(folder).free / _GIB:.1f} GiB free at {folder}"
