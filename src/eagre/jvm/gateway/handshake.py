"""The companion's classes in a session, after a handshake about its version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from eagre.errors import JvmError
from eagre.jvm.companion import check_version
from eagre.jvm.private_members import PrivateMember, parsed

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

PACKAGE = "dev.eagre"

_classes: WeakKeyDictionary[SparkContext, dict[str, Any]] = WeakKeyDictionary()
"""The companion's classes by session, after the handshake. The cache avoids repeated lookups: for
every package in a class name, py4j makes the JVM search all of its jars for a class of that
name."""


def companion(spark: SparkSession, name: str) -> Any:  # noqa: ANN401  (a py4j class proxy)
    """Return a companion class by its name below ``dev.eagre``, after the version handshake.

    Raises:
        JvmError: The session has no companion, or one of another release.
    """
    classes = _classes.get(spark.sparkContext) or _handshake(spark)
    if name not in classes:
        proxy = classes[PACKAGE]
        for part in name.split("."):
            proxy = getattr(proxy, part)
        classes[name] = proxy
    return classes[name]


def _handshake(spark: SparkSession) -> dict[str, Any]:
    package = spark._jvm.dev.eagre  # type: ignore[union-attr]  # noqa: SLF001
    if not callable(package.Companion):
        raise JvmError(
            "COMPANION_NOT_LOADED",
            "this Spark session was started without Eagre's companion jar.",
            hint="create it with eg.session(), or call eg.configure(builder) before the first "
            "session of the process.",
        )
    check_version(package.Companion.version(), "the running Spark session")
    package.spark.SparkInternals.useSteadyClock()
    package.spark.SparkInternals.dropSettingSources(spark.sparkContext._jsc.sc())  # noqa: SLF001
    return _classes.setdefault(spark.sparkContext, {PACKAGE: package})


def missing_members(spark: SparkSession) -> tuple[PrivateMember, ...]:
    """Return the private members of Spark that this session lacks; their features are off."""
    members = parsed(companion(spark, "spark.PrivateMember").report())
    return tuple(member for member in members if not member.available)
