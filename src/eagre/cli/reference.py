"""The command reference, written from the commands' own help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = 96


def reference() -> str:
    """Write ``docs/reference/cli.md``."""
    from eagre.cli import eagre

    sections = [f"## {path}\n```\n{text}\n```\n" for path, text in _commands(eagre, "eagre")]
    head = "# Commands\nWritten by `make docs` from the commands' own help.\n"
    return "\n".join([head, *sections])


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command, info_name=path, terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner:
                yield from _commands(inner, f"{path} {name}")


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference())
