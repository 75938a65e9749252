"""The exit codes of ``eagre``: one table for the code, the help and docs/reference/cli.md."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of commands, for scripts.

    >>> ExitCode.USAGE, ExitCode.USAGE.brief
    (<ExitCode.USAGE: 2>, 'usage')
    """

    OK = 0
    FAILED = 1
    USAGE = 2
    SLO_BROKEN = 3
    UNEXPECTED = 70
    INTERRUPTED = 130
    TERMINATED = 143

    @property
    def brief(self) -> str:
        """Its short name for the help."""
        return "SLO" if self is ExitCode.SLO_BROKEN else self.name.lower()

    @property
    def meaning(self) -> str:
        """Its description."""
        return MEANINGS[self]


MEANINGS = {
    ExitCode.OK: "success; for `eagre run`, also after a drain",
    ExitCode.FAILED: "the command failed: the message on stderr has an error code and the next "
    "step. `eagre check` and `eagre doctor`: at least one error was found. `eagre run`: also when "
    "it is stopped while a pipeline restarts after a failure, or by a second signal",
    ExitCode.USAGE: "the command line is wrong: an unknown command or option, a missing argument, "
    "a value that is not one of the choices",
    ExitCode.SLO_BROKEN: "`eagre run --slo-check`: an SLO was missed, or nothing was measured",
    ExitCode.UNEXPECTED: "an unexpected error, probably a bug; `--debug` shows the stack trace",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C, or a question was answered with no; "
    "`eagre run`: before any query ran, so that there was nothing to drain",
    ExitCode.TERMINATED: "ended by SIGTERM or SIGHUP; `eagre run`: before any query ran",
}
