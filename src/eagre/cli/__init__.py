"""The ``eagre`` command. A command's module is imported when it is called, and starts no JVM."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING

import click

from eagre import __version__
from eagre.errors import EagreError

if TYPE_CHECKING:
    from types import ModuleType

INTERRUPTED = 130
UNEXPECTED = 70
COMMANDS = {
    "advise": ("check", "Say which mode is worth its price."),
    "bench": ("eagre_bench.cli", "Measure systems side by side: one load, one machine, one run."),
    "broker": ("broker", "The embedded Kafka broker, in the background, on 127.0.0.1."),
    "check": ("check", "Look at the pipelines of a file before any data flows."),
    "checkpoint": ("checkpoint", "Checkpoints: show, copy, reset."),
    "dashboard": ("dashboard", "Show the pipelines that run on this machine on a page."),
    "demo": ("demo", "Run a use case in micro-batch, then in real time, and compare."),
    "dlq": ("dlq", "Dead letters: list, show, replay."),
    "doctor": ("doctor", "Look at everything a pipeline needs."),
    "explain": ("check", "Tell all about a finding, by its ID."),
    "init": ("init", "Make a project of a use case."),
    "jars": ("jars", "The locked jars: fetched once per user, verified before use."),
    "run": ("run", "Run the pipelines of a file."),
    "size": ("check", "Add up the task slots a pipeline needs."),
    "status": ("status", "List the pipelines that run."),
    "stop": ("status", "Drain the run of a pipeline."),
    "topic": ("topic", "Topics: list, create, tail, produce, lag."),
}
"""Each command's module and its line in ``eagre --help``; the benchmark is a package of its own."""


class Commands(click.Group):
    """Imports what is called, and nothing for a list of all."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Name them."""
        return sorted(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """Import one."""
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(_module(COMMANDS[name][0]), name)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """List them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in sorted(COMMANDS.items())])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="--debug after any command shows the stack trace of a failure.",
)
@click.version_option(__version__, prog_name="eagre")
def eagre() -> None:
    """Millisecond pipelines in PySpark: Spark 4.3 Real-Time Mode made practical."""


def main() -> None:
    """Run the command line; each failure is one sentence and a non-zero exit."""
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    try:
        sys.exit(eagre.main(arguments, prog_name="eagre", standalone_mode=False))
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted.", INTERRUPTED, debug=debug)
    except click.ClickException as error:
        _fail(_usage(error), error.exit_code, debug=debug)
    except EagreError as error:
        _fail(str(error), 1, debug=debug, log=error.data.get("log"))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:  # noqa: BLE001  (no stack trace without --debug)
        _fail(f"unexpected {type(error).__name__}: {error}", UNEXPECTED, debug=debug)


def _module(name: str) -> ModuleType:
    """Import a module of this package, or one of another package by its full name."""
    if "." not in name:
        return import_module(f"{__name__}.{name}")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise EagreError(
            "BENCH_NOT_INSTALLED",
            f"the benchmark needs the module {error.name}, which is not installed.",
            hint='install it with: pip install "eagre[bench]"',
        ) from None


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "eagre"
    return f"{error.format_message()} Hint: see `{path} --help`."


def _fail(text: str, code: int, *, debug: bool, log: str | None = None) -> None:
    click.echo(f"eagre: {text}", err=True)
    if log:
        click.echo(f"eagre: the whole log is {log}", err=True)
    if debug:
        traceback.print_exc()
    sys.exit(code)
