"""Errors of PySpark and of its JVM."""

from __future__ import annotations

import re
from pathlib import Path
from subprocess import TimeoutExpired

STOPPED = re.compile(
    "Cannot call methods on a stopped SparkContext|SparkContext was shut down"
    "|SparkContext has been shutdown"
)
GONE_SECONDS = 2.0
"""How long to wait for a killed JVM to exit."""


def library_folders() -> tuple[str, ...]:
    """Return the folders of PySpark and py4j: their stack frames are not the user's."""
    import py4j
    import pyspark

    return tuple(str(Path(str(library.__file__)).parent) for library in (pyspark, py4j))


def jvm_gone(error: BaseException) -> bool:
    """Return whether an error means that the JVM has exited, or never came up.

    If the JVM exits during a class lookup, py4j reports a missing class, or calls a package.
    """
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
    from pyspark import SparkContext

    lost = isinstance(error, ConnectionError | Py4JNetworkError)
    if lost or "JAVA_GATEWAY_EXITED" in str(error):
        return True
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    if process is None or isinstance(error, Py4JJavaError):
        return False
    if not isinstance(error, Py4JError | TypeError):
        return bool(process.poll() is not None)
    try:
        process.wait(GONE_SECONDS)
    except TimeoutExpired:
        return False
    return True


def context_stopped(error: BaseException) -> bool:
    """Return whether an error means that the cluster has removed the application."""
    return STOPPED.search(str(error)) is not None


def reason(error: BaseException) -> str:
    """Summarize a PySpark or JVM error in one line, without its stack trace."""
    text = str(error)
    causes = re.findall(r"^Caused by: (?:[\w.$]+(?:Exception|Error)): (.+)$", text, re.MULTILINE)
    first = re.sub(r"^An error occurred while calling [^\n]*\n:\s*", "", text).strip()
    line = causes[-1] if causes else first.split("\n", 1)[0]
    for noise in (
        r"^[\w.$]+(?:Exception|Error): ",
        r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ",
        r" SQLSTATE: \w{5}",
    ):
        line = re.sub(noise, "", line)
    return line.strip()
