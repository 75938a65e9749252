"""The ``eagre`` command. Modules here import little at the top: ``eagre --help`` starts no JVM."""

from __future__ import annotations

import sys
import traceback

import click

from eagre import __version__
from eagre.cli.bench import bench
from eagre.cli.broker import broker
from eagre.cli.check import advise, check, explain, size
from eagre.cli.checkpoint import checkpoint
from eagre.cli.dashboard import dashboard
from eagre.cli.demo import demo
from eagre.cli.dlq import dlq
from eagre.cli.doctor import doctor
from eagre.cli.init import init
from eagre.cli.jars import jars
from eagre.cli.run import run
from eagre.cli.status import status, stop
from eagre.cli.topic import topic
from eagre.errors import EagreError

INTERRUPTED = 130
UNEXPECTED = 70


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="--debug after any command shows the stack trace of a failure.",
)
@click.version_option(__version__, prog_name="eagre")
def eagre() -> None:
    """Millisecond pipelines in PySpark: Spark 4.3 Real-Time Mode made practical."""


COMMANDS = (
    advise,
    bench,
    broker,
    check,
    checkpoint,
    dashboard,
    demo,
    dlq,
    doctor,
    explain,
    init,
    jars,
    run,
    size,
    status,
    stop,
    topic,
)
for command in COMMANDS:
    eagre.add_command(command)


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
