"""The user's file: ``APP.py`` or ``APP.py:PIPELINE``."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eagre.errors import AppError, app_error
from eagre.pipeline import Pipeline
from eagre.python.shipping import by_value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


@dataclass(frozen=True)
class App:
    """An app file, and the name of the pipeline chosen from it, if any.

    >>> App.parse("score.py:fraud")
    App(path=PosixPath('score.py'), chosen='fraud')
    """

    path: Path
    chosen: str | None = None

    @classmethod
    def parse(cls, text: str) -> App:
        """Parse ``APP.py`` or ``APP.py:PIPELINE`` from the command line."""
        path, colon, chosen = text.rpartition(":")
        return cls(Path(path), chosen) if colon else cls(Path(text))

    def check_readable(self) -> None:
        """Check that the file exists and compiles, without running it.

        Raises:
            AppError: The file cannot be read, or is not valid Python.
        """
        try:
            compile(self.path.read_bytes(), str(self.path), "exec", dont_inherit=True)
        except OSError as error:
            raise AppError(
                "APP_NOT_FOUND",
                f"{self.path} cannot be read: {error.strerror}.",
                hint="name a Python file that defines a pipeline.",
            ) from None
        except (SyntaxError, ValueError) as error:
            raise self._malformed(error) from None

    def pipelines_before_spark(self) -> list[Pipeline] | None:
        """Run the file before Spark has started.

        Returns:
            Its pipelines; None if the file needs a session outside of its functions, as for a
            table in a global variable, and must be run again in one.

        Raises:
            AppError: The file raises an exception, or defines no pipeline.
        """
        before = set(sys.modules)
        try:
            with _no_session():
                return self.pipelines()
        except (AppError, SystemExit) as error:
            if not _needs_session(error):
                raise
        self._forget(set(sys.modules) - before)
        return None

    def _forget(self, names: set[str]) -> None:
        """Remove modules of the app's folder, so that the next run of the file runs them again."""
        folder = self.path.resolve().parent
        for name in names:
            file = getattr(sys.modules[name], "__file__", None)
            if file and folder in Path(file).resolve().parents:
                del sys.modules[name]

    def pipelines(self) -> list[Pipeline]:
        """Run the file and return its pipelines in the order of their definition.

        Raises:
            AppError: The file raises an exception, or defines no pipeline.
        """
        defined = [value for value in vars(self._load()).values() if isinstance(value, Pipeline)]
        pipelines = list({id(pipeline): pipeline for pipeline in defined}.values())
        if not pipelines:
            raise AppError(
                "APP_WITHOUT_PIPELINE",
                f"{self.path} defines no pipeline.",
                hint="decorate a function with @eg.pipeline(source=..., sink=...).",
            )
        self._require_distinct(pipelines)
        return pipelines

    def choose(self, pipelines: list[Pipeline]) -> list[Pipeline]:
        """Return the chosen pipeline, or all pipelines if none was chosen.

        Raises:
            AppError: The file defines no pipeline of that name.
        """
        if self.chosen is None:
            return pipelines
        matches = [pipeline for pipeline in pipelines if pipeline.name == self.chosen]
        if not matches:
            names = ", ".join(pipeline.name for pipeline in pipelines)
            raise AppError(
                "PIPELINE_NOT_FOUND",
                f"{self.path} defines no pipeline {self.chosen!r}.",
                hint=f"choose one of: {names}.",
            )
        return matches

    def _load(self) -> ModuleType:
        path = self.path.resolve()
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise AppError(
                "APP_NOT_PYTHON", f"{self.path} must be a Python file whose name ends in .py."
            )
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
        except AppError:
            raise
        except Exception as error:
            raise app_error(
                error, str(path), "APP_RAISED", f"{self.path} cannot be loaded"
            ) from error
        by_value(module)
        return module

    def _malformed(self, error: SyntaxError | ValueError) -> AppError:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        return AppError("APP_SYNTAX", f"{self.path}{line} is not valid Python: {text}.")

    def _require_distinct(self, pipelines: list[Pipeline]) -> None:
        names = [pipeline.name for pipeline in pipelines]
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            raise AppError(
                "PIPELINE_NAME_TWICE",
                f"{self.path} defines two pipelines named {duplicates[0]!r}.",
                hint="rename one of them: @eg.pipeline(..., name='...').",
            )


class _SparkNotStartedError(RuntimeError):
    """The app asks for a session before there is one."""


@contextlib.contextmanager
def _no_session() -> Iterator[None]:
    """Let PySpark refuse to start: the run's own session, with its settings, comes later."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    def refuse(*_: object, **__: object) -> None:
        raise _SparkNotStartedError("Spark has not started yet.")

    entrances: tuple[tuple[type, str], ...] = (
        (SparkContext, "_ensure_initialized"),
        (SparkSession, "getActiveSession"),
    )
    originals = [owner.__dict__[name] for owner, name in entrances]
    for owner, name in entrances:
        setattr(owner, name, refuse)
    try:
        yield
    finally:
        for (owner, name), original in zip(entrances, originals, strict=True):
            setattr(owner, name, original)


def _needs_session(error: BaseException | None) -> bool:
    """Return whether PySpark raised an error, or one that led to it."""
    if error is None:
        return False
    frames = traceback.extract_tb(error.__traceback__)
    here = isinstance(error, _SparkNotStartedError) or any(
        "pyspark" in Path(frame.filename).parts for frame in frames
    )
    return here or _needs_session(error.__cause__) or _needs_session(error.__context__)
