"""The exceptions that Eagre raises.

::

    EagreError
    ├── JvmError           Java, PySpark's version, the jars, the companion
    ├── BrokerError        the embedded broker, an unreachable cluster, topics
    ├── ClusterError       the Spark standalone cluster of this machine
    ├── SettingsError      an invalid argument, option or schema
    ├── AppError           the user's file: missing, broken, without a pipeline
    ├── CheckpointError    a broken checkpoint, or one that belongs to another pipeline
    ├── PipelineFailed     a running query failed
    ├── FileError          a file of Eagre's own that a newer release wrote
    └── TrialError         a trial: its events, the process under test, load and meter

An error message has a code, the problem, and a hint with the next step.

>>> str(BrokerError("PORT_TAKEN", "port 9092 is in use.", hint="choose another with --port."))
'PORT_TAKEN: port 9092 is in use. Hint: choose another with --port.'
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class EagreError(Exception):
    """An error with a stable code, a problem, a hint, and its data as attributes.

    ``args`` holds all of them, so that an error survives pickling.
    """

    def __init__(
        self, code: str, problem: str, hint: str = "", data: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(code, problem, hint, dict(data or {}))
        self.code = code
        self.problem = problem
        self.hint = hint
        self.data = dict(data or {})

    def __str__(self) -> str:
        return f"{self.code}: {self.problem}" + (f" Hint: {self.hint}" if self.hint else "")


class JvmError(EagreError):
    """Java, PySpark, the jars or the companion are missing or have the wrong version."""


class BrokerError(EagreError):
    """The embedded broker, a cluster or a topic is not available."""


class ClusterError(EagreError):
    """A Spark standalone cluster of this machine is not available."""


class SettingsError(EagreError):
    """An argument, an option or a schema is invalid."""


class AppError(EagreError):
    """The user's file is missing, broken, or contains no pipeline."""


class FileError(EagreError):
    """A file of Eagre's own, outside of a checkpoint, was written by a newer release."""


class CheckpointError(EagreError):
    """A checkpoint is broken or belongs to another pipeline."""


class PipelineFailed(EagreError):  # noqa: N818  (the name says what happened)
    """A running query failed."""


class TrialError(EagreError):
    """A trial failed: its events, the process under test, the load generator or the meter."""


def app_error(error: Exception, path: str, code: str, what: str) -> AppError:
    """Describe an exception of the user's code, with its line in the user's file."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    where = f" (line {lines[-1]})" if lines else ""
    text = str(error).strip().splitlines()
    detail = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return AppError(code, f"{what}{where}: {detail}")
