"""Where Spark's own jars are, without importing PySpark, and whether they are new enough."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from eagre.config import SPARK_VERSION
from eagre.errors import JvmError

_WANTED = ".".join(map(str, SPARK_VERSION))
_HINT = f'pip install "pyspark>={_WANTED}.0,<4.4", and unset SPARK_HOME if it names another Spark.'


def spark_jars() -> Path:
    """The folder of Spark's jars: of ``SPARK_HOME`` if set, as PySpark does, else PySpark's own.

    Raises:
        JvmError: There is no Spark there, or it is not of the 4.3 line.
    """
    folder = _spark_home() / "jars"
    found = [re.match(r"spark-core_2\.13-(\d+)\.(\d+)(.*)\.jar", p.name) for p in _cores(folder)]
    if not found or found[0] is None:
        raise JvmError("SPARK_NOT_FOUND", f"there is no Spark in {folder.parent}.", hint=_HINT)
    major, minor, rest = found[0].groups()
    if (int(major), int(minor)) != SPARK_VERSION:
        raise JvmError(
            "SPARK_UNSUPPORTED",
            f"Spark in {folder.parent} is {major}.{minor}{rest}; Eagre needs {_WANTED}, the line "
            "with the Real-Time Mode it is written for.",
            hint=_HINT,
            data={"found": f"{major}.{minor}{rest}"},
        )
    return folder


def _cores(folder: Path) -> list[Path]:
    return sorted(folder.glob("spark-core_2.1*-*.jar"))


def _spark_home() -> Path:
    stated = os.environ.get("SPARK_HOME")
    if stated:
        return Path(stated)
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JvmError("SPARK_NOT_FOUND", "PySpark is not installed.", hint=_HINT)
    return Path(spec.submodule_search_locations[0])
