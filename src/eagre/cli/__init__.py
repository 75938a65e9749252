"""The ``eagre`` command. It imports a command's module on demand and starts no JVM."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from eagre import __version__
from eagre.cli.commands import Group
from eagre.cli.console import warn
from eagre.cli.exit_codes import ExitCode
from eagre.cli.signals import is_terminated, stop_signals
from eagre.errors import EagreError

if TYPE_CHECKING:
    from types import ModuleType

GROUPS = {
    "Get started": {
        "demo": (
            ".use_cases.demo",
            "Run a use case in micro-batch, then in real time, and compare.",
        ),
        "init": (".use_cases.init", "Create a project from a use case."),
        "doctor": (".installation.doctor", "Check everything that a pipeline needs."),
    },
    "Check before the start": {
        "check": (".pipelines.check", "Check the pipelines of a file before any data flows."),
        "explain": (".pipelines.check", "Explain a finding of the check by its ID."),
        "size": (".pipelines.size", "Add up the task slots that a pipeline needs."),
        "advise": (".pipelines.size", "Recommend a mode for a latency target."),
    },
    "Run and watch": {
        "run": (".pipelines.run", "Run the pipelines of a file."),
        "status": (".pipelines.status", "List the running pipelines."),
        "stop": (".pipelines.status", "Drain and stop a pipeline."),
        "dashboard": (".pipelines.dashboard", "Serve a dashboard of the running pipelines."),
        "checkpoint": (".pipelines.checkpoint", "Show, copy and reset checkpoints."),
    },
    "Run as a service": {
        "deploy": (".deploy.command", "Print a systemd unit, or Kubernetes manifests."),
    },
    "Kafka": {
        "topic": (
            ".kafka.topic",
            "List, describe, create, tail, fill and delete topics; show lag.",
        ),
        "dlq": (".kafka.dlq", "List, show and replay dead letters."),
        "broker": (".kafka.broker", "Start and stop an embedded Kafka broker on 127.0.0.1."),
    },
    "Spark": {
        "cluster": (
            ".pipelines.cluster",
            "Start and stop a Spark standalone cluster on 127.0.0.1.",
        ),
    },
    "Measure": {
        "measure": (".kafka.measure", "Measure the latency of any topic's records."),
        "bench": ("eagre_bench.cli", "Measure systems side by side under the same load."),
    },
    "Installation": {
        "jars": (".installation.jars", "Fetch and verify the jars that Eagre adds to Spark."),
        "completion": (
            ".installation.completion",
            "Print a completion script for bash, zsh or fish.",
        ),
    },
}
"""Each command's module, relative to this package unless absolute, and its line of help."""
COMMANDS = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}


class Commands(Group):
    """Imports a command's module on demand; a list of the commands imports none."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """Import a command; return None if there is none of this name."""
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(_module(COMMANDS[name]), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing its module."""
        lines = {name: line for group in GROUPS.values() for name, (_, line) in group.items()}
        return [
            CompletionItem(name, help=lines[name])
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ] or super(click.Group, self).shell_complete(ctx, incomplete)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by purpose."""
        widest = max(map(len, COMMANDS))
        for heading, group in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{name:{widest}}", line) for name, (_, line) in group.items()]
                )


@click.group(
    cls=Commands,
    epilog="\b\n`eagre COMMAND --help` shows options and examples.\n"
    f"Exit codes: {', '.join(f'{c:d} {c.brief}' for c in ExitCode)};\n"
    "docs/reference/cli.md explains them.",
)
@click.version_option(__version__, prog_name="eagre")
def eagre() -> None:
    """Millisecond pipelines in PySpark: Spark 4.3 Real-Time Mode made practical."""


def main() -> None:
    """Run the command line; each failure is one sentence and a non-zero exit."""
    _open_closed_streams()
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    try:
        with stop_signals():
            sys.exit(eagre.main(arguments, prog_name="eagre", standalone_mode=False))
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except (KeyboardInterrupt, click.Abort) as error:
        if is_terminated(error):
            _fail("terminated.", ExitCode.TERMINATED, debug=debug)
        _fail("interrupted.", ExitCode.INTERRUPTED, debug=debug)
    except click.ClickException as error:
        _fail(_usage(error), error.exit_code, debug=debug)
    except EagreError as error:
        _fail(str(error), ExitCode.FAILED, debug=debug, log=error.data.get("log"))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(ExitCode.FAILED)
    except Exception as error:  # noqa: BLE001  (no stack trace without --debug)
        _fail(f"unexpected {type(error).__name__}: {error}", ExitCode.UNEXPECTED, debug=debug)


def _open_closed_streams() -> None:
    """Open what the caller has closed: else a pipe would get the number of a standard stream."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            setattr(sys, name, open(number, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115


def _module(name: str) -> ModuleType:
    """Import a module of this package, or one of another package by its full name."""
    if name.startswith("."):
        return import_module(name, __name__)
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
    warn(text)
    if log:
        warn(f"the full log is {log}")
    if debug:
        traceback.print_exc()
    sys.exit(code)
