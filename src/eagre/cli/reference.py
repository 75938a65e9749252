"""The command reference, generated from the help of the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from eagre.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = 96
_CONVENTIONS = """\
## Conventions
- Results go to stdout; messages, questions and errors to stderr. A failure is one line with a
  stable code and the next step.
- `--json FILE` also writes the result as JSON; `--json -` prints only JSON on stdout. `eagre topic
  tail` writes a line of JSON per record.
- `-q` prints only results and errors. `-v` prints more of what happens; `eagre run -v` also sets
  Spark's log level to `INFO`.
- Colour is for terminals only, and there is none if `NO_COLOR` is set.
- `eagre completion bash` (or `zsh`, `fish`) prints a completion script.
"""

_SHOWN_BY = """
Shown by: `tests/test_cli.py::test_exit_codes_are_documented`,
`tests/test_cli.py::test_stdout_contains_only_json`,
`tests/test_cli.py::test_no_color`; the codes of a run: [run and stop](../how-to/running.md#stop).
"""


def reference() -> str:
    """Return the text of ``docs/reference/cli.md``."""
    from eagre.cli import eagre

    sections = [f"## {path}\n```\n{text}\n```\n" for path, text in _commands(eagre, "eagre")]
    head = "# Commands\nWritten by `make docs` from the commands' own help.\n"
    return "\n".join([head, _conventions(), *sections])


def _conventions() -> str:
    codes = "\n".join(f"| {code:d} | {code.meaning} |" for code in ExitCode)
    return f"{_CONVENTIONS}\n| exit code | meaning |\n|---|---|\n{codes}\n{_SHOWN_BY}"


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command, info_name=path, terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            if subcommand:
                yield from _commands(subcommand, f"{path} {name}")


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference())
