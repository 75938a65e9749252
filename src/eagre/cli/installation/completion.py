"""``eagre completion``: completion scripts for shells, generated from the commands."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from eagre.cli.commands import Command

VARIABLE = "_EAGRE_COMPLETE"
"""The environment variable with which a script requests completions; click defines it."""


class _Bash(BashComplete):
    """Bash 4.4 or later; the machine that prints the script need not have it."""

    @staticmethod
    def _check_version() -> None:
        """Skip click's check of the local version."""


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": ZshComplete, "fish": FishComplete}


@click.command(
    cls=Command,
    examples=(
        'eval "$(eagre completion bash)"    # in ~/.bashrc',
        'eval "$(eagre completion zsh)"     # in ~/.zshrc, after compinit',
        "eagre completion fish | source     # in ~/.config/fish/config.fish",
    ),
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print the completion script of a shell: commands, options, choices and files."""
    root = click.get_current_context().find_root().command
    click.echo(SHELLS[shell](root, {}, "eagre", VARIABLE).source())
