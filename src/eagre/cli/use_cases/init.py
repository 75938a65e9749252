"""``eagre init``: creates a project from a use case."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from eagre.cli.commands import Command
from eagre.cli.console import Verbosity, json_option, report, verbosity
from eagre.errors import SettingsError
from eagre.templates import folder, projects, summary

NEXT = """\
next:
  cd {directory}
  pip install -e ".[test]"   # the project's dependencies; Eagre itself is installed
  make test                  # its tests, on a real broker and a real Spark
  eagre check app.py         # check it before the first record
  eagre run app.py           # run it in real time on an embedded broker
README.md explains the rest."""


@click.command(
    cls=Command,
    examples=("eagre init fraud my-project",),
    epilog="\b\nUse cases:\n" + "\n".join(f"  {name:<12} {summary(name)}" for name in projects()),
)
@click.argument("use_case")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@json_option
def init(use_case: str, directory: Path, target: str | None) -> None:
    """Create a project from USE_CASE in DIRECTORY: app, generator, tests, pyproject.toml, README.

    The directory must be new or empty.
    """
    template = folder(use_case)
    if use_case not in projects():
        raise SettingsError(
            "USE_CASE_NO_PROJECT",
            f"the use case {use_case!r} is for `eagre demo` only.",
            hint=f"choose one of: {', '.join(projects())}.",
        )
    if directory.exists() and any(directory.iterdir()):
        raise SettingsError(
            "DIRECTORY_NOT_EMPTY",
            f"{directory} is not empty, and `eagre init` does not overwrite files.",
            hint="name a new directory.",
        )
    ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".eagre", "*.egg-info")
    shutil.copytree(template, directory, ignore=ignored, dirs_exist_ok=True)
    report(
        target,
        {"use_case": use_case, "directory": str(directory)},
        f"created {directory} from the use case {use_case}",
    )
    if verbosity() >= Verbosity.NORMAL:
        click.echo(NEXT.format(directory=directory), err=True)
