"""Everything Eagre raises on purpose.

::

    EagreError
    ├── JvmError           Java, PySpark's version, the jars, the companion
    ├── BrokerError        the embedded broker, a cluster that does not answer, topics
    ├── SettingsError      an argument, an option or a schema that cannot be right
    ├── AppError           the user's file: missing, broken, without a pipeline
    ├── CheckpointError    a checkpoint that is broken or belongs to something else
    ├── PipelineFailed     a running query ended with an error
    └── TrialError         a trial: its events, the process under test, load and meter

An error reads: CODE, the subject and what is wrong with it, then the next step.

>>> str(BrokerError("PORT_TAKEN", "port 9092 is in use.", hint="choose another with --port."))
'PORT_TAKEN: port 9092 is in use. Hint: choose another with --port.'
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class EagreError(Exception):
    """A failure with a stable code, a sentence, the next step, and its data as attributes.

    All of it is in ``args``, so that an error survives pickling.
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
    """Java, PySpark's version, the jars or the companion are not as they must be."""


class BrokerError(EagreError):
    """The embedded broker, a cluster that does not answer, or a topic."""


class SettingsError(EagreError):
    """An argument, an option or a schema that cannot be right."""


class AppError(EagreError):
    """The user's file is missing, broken, or holds no pipeline."""


class CheckpointError(EagreError):
    """A checkpoint is broken or belongs to something else."""


class PipelineFailed(EagreError):  # noqa: N818  (it reads as what happened)
    """A running query ended with an error."""


class TrialError(EagreError):
    """A trial failed: its events, the process under test, the load generator or the meter."""


def raised(error: Exception, path: str, code: str, what: str) -> AppError:
    """Describe an exception of the user's code by its own line in the user's file."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    where = f" (line {lines[-1]})" if lines else ""
    text = str(error).strip().splitlines()
    detail = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return AppError(code, f"{what}{where}: {detail}")
