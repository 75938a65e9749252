"""The Python of the executors, as they report it themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagre.jvm.gateway.handshake import companion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Interpreter:
    """The Python of an executor.

    Attributes:
        executor: The executor.
        host: Its host.
        version: The major and minor version; empty if it did not start.
        missing: The packages that it cannot import.
        problem: Why it does not start; empty if it does.
        unknown: Why the executor has no answer; empty if it has one.
    """

    executor: str
    host: str
    version: str = ""
    missing: tuple[str, ...] = ()
    problem: str = ""
    unknown: str = ""


def interpreters(
    spark: SparkSession, python: str, packages: Iterable[str], seconds: float
) -> list[Interpreter]:
    """Start the workers' Python on each executor, and return what it reports.

    Args:
        spark: The session.
        python: The interpreter.
        packages: The packages to look for.
        seconds: How long it may take to start.
    """
    question = {"python": python, "packages": [*packages], "timeout_ms": int(seconds * 1000)}
    check = companion(spark, "python.worker.InterpreterCheck")
    reports = json.loads(check.reports(spark.sparkContext._jsc, json.dumps(question)))  # noqa: SLF001
    return [Interpreter(**{**report, "missing": _names(report)}) for report in reports]


def _names(report: dict[str, list[str]]) -> tuple[str, ...]:
    return tuple(report.get("missing", ()))
