"""How commands speak: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from eagre.commit import Checkpoint
from eagre.config import project_dir


def say(text: str) -> None:
    """Tell people what is being done."""
    click.echo(f"eagre: {text}", err=True)


def write_json(target: str, value: Any) -> None:  # noqa: ANN401  (JSON)
    """Write machine-readable results to a file, or to standard output for ``-``."""
    text = json.dumps(value, indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text)


def project_checkpoint(folder_or_name: str) -> Checkpoint:
    """Give a checkpoint by its folder, or by the name of a pipeline of this project."""
    own = project_dir() / "checkpoints" / folder_or_name
    return Checkpoint(own if own.exists() else folder_or_name)


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Lay out rows in columns; numbers, which is all but the first column, to the right.

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
