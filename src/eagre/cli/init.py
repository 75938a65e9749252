"""``eagre init``: a project to start from."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from eagre.cli.console import say
from eagre.errors import SettingsError
from eagre.templates import folder, projects


@click.command(epilog=f"Use cases: {', '.join(projects())}.")
@click.argument("use_case")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def init(use_case: str, directory: Path) -> None:
    """Make a project of USE_CASE in DIRECTORY: app, generator, tests, README.

    The directory must be new or empty.
    """
    place = folder(use_case)
    if use_case not in projects():
        raise SettingsError(
            "USE_CASE_NO_PROJECT",
            f"the use case {use_case!r} is for `eagre demo` only.",
            hint=f"choose one of: {', '.join(projects())}.",
        )
    if directory.exists() and any(directory.iterdir()):
        raise SettingsError(
            "DIRECTORY_NOT_EMPTY",
            f"{directory} holds files already, and none is written over.",
            hint="name a new directory.",
        )
    left_out = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".eagre")
    shutil.copytree(place, directory, ignore=left_out, dirs_exist_ok=True)
    say(f"{use_case} is in {directory}; next: cd {directory} && python -m pytest tests")
