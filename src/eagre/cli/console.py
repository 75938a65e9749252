"""Output of commands: results to standard output, everything else to standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagre.config import project_dir
from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagre.commit import Checkpoint

CLEAR_LINE = "\r\x1b[2K"


class Verbosity(IntEnum):
    """How many messages a command prints besides its results."""

    QUIET = -1
    NORMAL = 0
    VERBOSE = 1


class _State:
    """The verbosity of this process; click's context is not visible to other threads."""

    level = Verbosity.NORMAL


def set_verbosity(level: Verbosity) -> None:
    """Set the verbosity of this process."""
    _State.level = level


def verbosity() -> Verbosity:
    """Return the verbosity of this process."""
    return _State.level


def say(text: str) -> None:
    """Print a message to standard error, unless ``--quiet`` is given."""
    if _State.level >= Verbosity.NORMAL:
        warn(text)


def detail(text: str) -> None:
    """Print a message to standard error only if ``--verbose`` is given."""
    if _State.level >= Verbosity.VERBOSE:
        warn(text)


def warn(text: str) -> None:
    """Print an important message to standard error, even if ``--quiet`` is given.

    A reader that has gone, or a full disk, must not end a run: the message is lost.
    """
    with contextlib.suppress(OSError):
        click.echo(f"eagre: {text}", err=True)


def live() -> bool:
    """Return whether a line on standard error can be rewritten: on a terminal, unless quiet."""
    rewritable = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return rewritable and _State.level >= Verbosity.NORMAL


def rewrite_line(text: str = "") -> None:
    """Replace the last line on standard error, also if ``NO_COLOR`` is set."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{CLEAR_LINE}{text}")
        sys.stderr.flush()


def json_option(
    command: Callable[..., None], what: str = "the result to FILE as JSON"
) -> Callable[..., None]:
    """Add ``--json FILE`` to a command; the function receives it as ``target``."""
    return click.option(
        "--json",
        "target",
        metavar="FILE",
        callback=_writable,
        help=f"Also write {what}; -: print only JSON on stdout.",
    )(command)


def result(target: str | None, value: Any, text: str) -> None:  # noqa: ANN401  (JSON)
    """Print a result as text, and write it as JSON if ``--json`` is given."""
    if target:
        write_json(target, value)
    if target != "-":
        click.echo(text)


def report(target: str | None, value: Any, text: str) -> None:  # noqa: ANN401  (JSON)
    """Say what a command has done, and write it as JSON if ``--json`` is given."""
    say(text)
    if target:
        write_json(target, value)


def write_json(target: str, value: Any) -> None:  # noqa: ANN401  (JSON)
    """Write machine-readable results to a file, or to standard output for ``-``.

    Raises:
        SettingsError: The file cannot be written.
    """
    text = json.dumps(value, indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text)
    except OSError as error:
        raise SettingsError(
            "JSON_UNWRITABLE", f"--json: {target} cannot be written: {error.strerror}."
        ) from None


def _writable(_: click.Context, __: click.Parameter, target: str | None) -> str | None:
    """Check the folder before the command does its work."""
    folder = Path(target or "-").absolute().parent
    if target not in (None, "-") and not folder.is_dir():
        raise click.BadParameter(f"folder {folder} does not exist.")
    return target


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation before something is deleted.

    Args:
        question: The question to ask.
        yes: Whether ``--yes`` was given; if so, it does not ask.

    Raises:
        SettingsError: Standard input is not a terminal.
        Abort: The answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise SettingsError(
            "CONFIRMATION_MISSING",
            "this cannot be undone, and standard input is not a terminal to ask on.",
            hint="pass --yes to go ahead without a question.",
        )
    click.confirm(question, abort=True, err=True)


def project_checkpoint(folder_or_name: str) -> Checkpoint:
    """Return a checkpoint by its folder, or by the name of a pipeline of this project."""
    from eagre.commit import Checkpoint

    in_project = project_dir() / "checkpoints" / folder_or_name
    return Checkpoint(in_project if in_project.exists() else folder_or_name)


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Format rows as a table; every column but the first is aligned to the right.

    >>> print(table(["topic", "records"], [["payments", "12"], ["scores", "7"]]))
    topic     records
    payments       12
    scores          7
    """
    lines = [headings, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in lines
    )
