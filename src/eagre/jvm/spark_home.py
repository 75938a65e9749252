"""Finds Spark's jars without importing PySpark, and checks their version."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from eagre.config import SPARK_VERSION
from eagre.errors import JvmError

_REQUIRED = ".".join(map(str, SPARK_VERSION))
_HINT = (
    f'pip install "pyspark>={_REQUIRED}.0,<4.4", and unset SPARK_HOME if it names another Spark.'
)


def spark_jars() -> Path:
    """Return the folder of Spark's jars: like PySpark, in ``SPARK_HOME`` or in PySpark itself.

    Raises:
        JvmError: There is no Spark, or it is not a 4.3 release.
    """
    folder = _spark_home() / "jars"
    matches = [re.match(r"spark-core_2\.13-(\d+)\.(\d+)(.*)\.jar", p.name) for p in _cores(folder)]
    if not matches or matches[0] is None:
        raise JvmError("SPARK_NOT_FOUND", f"there is no Spark in {folder.parent}.", hint=_HINT)
    major, minor, rest = matches[0].groups()
    if (int(major), int(minor)) != SPARK_VERSION:
        raise JvmError(
            "SPARK_UNSUPPORTED",
            f"Spark in {folder.parent} is {major}.{minor}{rest}, and Eagre needs {_REQUIRED}.",
            hint=_HINT,
            data={"found": f"{major}.{minor}{rest}"},
        )
    return folder


def _cores(folder: Path) -> list[Path]:
    return sorted(folder.glob("spark-core_2.1*-*.jar"))


def _spark_home() -> Path:
    spark_home = os.environ.get("SPARK_HOME")
    if spark_home:
        return Path(spark_home)
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JvmError("SPARK_NOT_FOUND", "PySpark is not installed.", hint=_HINT)
    return Path(spec.submodule_search_locations[0])
