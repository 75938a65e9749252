"""The layout of commands: options in groups, examples, ``--quiet`` and ``--verbose``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from eagre.cli.console import Verbosity, set_verbosity

if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS, GENERAL = "Options", "General"


class Option(click.Option):
    """An option under a heading of its command's help."""

    def __init__(self, *args: Any, group: str = OPTIONS, **attributes: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **attributes)
        self.group = group


class BaseCommand(click.Command):
    """The base of commands and groups: colour, ``-h``, examples."""

    help_heading = OPTIONS

    def __init__(
        self,
        *args: Any,  # noqa: ANN401  (as click takes them)
        examples: Sequence[str] = (),
        **attributes: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)

    def get_help_option_names(self, _: click.Context) -> list[str]:
        """Return the same names in every context, because click caches the first answer."""
        return ["-h", "--help"]

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401
    ) -> click.Context:
        """Parse the arguments; without colour if ``NO_COLOR`` is set (no-color.org)."""
        if os.environ.get("NO_COLOR"):
            extra.setdefault("color", False)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options, each under its heading."""
        groups: dict[str, list[tuple[str, str]]] = {OPTIONS: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record:
                groups.setdefault(self._heading(param), []).append(record)
        general = groups.pop(GENERAL, [])
        for heading, records in [*groups.items(), (GENERAL, general)]:
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def _heading(self, param: click.Parameter) -> str:
        return getattr(param, "group", self.help_heading if "--help" in param.opts else OPTIONS)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the epilog."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        super().format_epilog(ctx, formatter)


class Command(BaseCommand):
    """A command; its help lists the common options under "General"."""

    help_heading = GENERAL

    def __init__(self, *args: Any, **attributes: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **attributes)
        self.params += [
            _verbosity_option("-q", "--quiet", Verbosity.QUIET, "Print only results and errors."),
            _verbosity_option("-v", "--verbose", Verbosity.VERBOSE, "Print more of what happens."),
            Option(
                ["--debug"],
                is_flag=True,
                expose_value=False,
                group=GENERAL,
                help="Print the stack trace of a failure.",
            ),
        ]

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401
    ) -> click.Context:
        """Parse the arguments; each call starts at normal verbosity."""
        set_verbosity(Verbosity.NORMAL)
        return super().make_context(info_name, args, parent, **extra)


class Group(BaseCommand, click.Group):
    """A group of commands."""

    command_class = Command
    group_class = type

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def _verbosity_option(short: str, long: str, level: Verbosity, text: str) -> Option:
    def set_level(_: click.Context, __: click.Parameter, is_set: bool) -> None:
        if is_set:
            set_verbosity(level)

    return Option(
        [short, long],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=set_level,
        group=GENERAL,
        help=text,
    )
