"""The Python of a cluster's executors: checked before a query needs it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from eagre.errors import ClusterError
from eagre.jvm import gateway
from eagre.python.shipping import interpreter, is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

START_SECONDS = 30.0
"""How long Python may take to start on an executor, for example from a network disk."""
NAMED_HOSTS = 3
OWN_PYTHON = "spark.pyspark.python, else PYSPARK_PYTHON"
PACKED = "or pack an environment and send it with spark.archives (docs/reference/python.md)"
ANYWAY = "pass --no-check to start anyway."


def require_python(
    spark: SparkSession, needed: Mapping[str, Sequence[str]], say: Callable[[str], None]
) -> None:
    """Check that the executors can run the pipeline's Python functions.

    A check that fails itself does not prevent the start.

    Args:
        spark: The session.
        needed: The packages that functions need, and the names of these functions; empty if the
            pipeline calls none.
        say: Receives messages.

    Raises:
        ClusterError: They have no Python, another version of it, or not all packages.
    """
    if not needed or is_local(spark):
        return
    python, _ = interpreter(spark)
    try:
        executors = gateway.interpreters(spark, python, needed, START_SECONDS)
    except Exception as error:  # noqa: BLE001  (whatever it is, the query may run)
        say(f"the Python of the executors could not be checked: {gateway.reason(error)}")
        return
    for executor in executors:
        if executor.unknown:
            say(f"the Python on {executor.host} could not be checked: {executor.unknown}")
    require_usable(executors, python, needed)


def require_usable(
    executors: Sequence[gateway.Interpreter], python: str, needed: Mapping[str, Sequence[str]]
) -> None:
    """Check what the executors have reported.

    Raises:
        ClusterError: As above.
    """
    here = "{}.{}".format(*sys.version_info)
    if absent := [e for e in executors if e.problem]:
        raise ClusterError(
            "EXECUTOR_PYTHON_MISSING",
            f"{_hosts(absent)} cannot start Python as {python!r}: {absent[0].problem}.",
            hint=f"name the path of a Python {here} there ({OWN_PYTHON}), {PACKED}; {ANYWAY}",
        )
    if other := [e for e in executors if e.version not in {"", here}]:
        versions = " and ".join(sorted({e.version for e in other}))
        raise ClusterError(
            "EXECUTOR_PYTHON_DIFFERS",
            f"{python!r} is Python {versions} on {_hosts(other)}, and the pipeline's functions "
            f"are pickled by Python {here}, which they need there too.",
            hint=f"name a Python {here} ({OWN_PYTHON}), {PACKED}; {ANYWAY}",
        )
    if lacking := [e for e in executors if e.missing]:
        missing = sorted({name for e in lacking for name in e.missing})
        raise ClusterError(
            "EXECUTOR_PACKAGES_MISSING",
            f"{python!r} on {_hosts(lacking)} cannot import "
            f"{', '.join(f'{name} (needed by {_users(name, needed)})' for name in missing)}.",
            hint=f"install it there, name another Python ({OWN_PYTHON}), {PACKED}; {ANYWAY}",
        )


def _users(package: str, needed: Mapping[str, Sequence[str]]) -> str:
    return " and ".join(needed.get(package, ["the workers"]))


def _hosts(executors: Sequence[gateway.Interpreter]) -> str:
    hosts = sorted({executor.host for executor in executors})
    more = len(hosts) - NAMED_HOSTS
    return ", ".join(hosts[:NAMED_HOSTS]) + (f" and {more} more" if more > 0 else "")
