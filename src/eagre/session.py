"""Spark sessions prepared for milliseconds: jars, loopback, and the latency profile.

The profile is a list of settings, each with its reason and measured effect; ``docs/profile.md`` is
written from it. Settings of the user always win, and each one that differs is reported once.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.config import LOOPBACK
from eagre.jvm import class_path, companion_jar, find_java
from eagre.jvm.spark_home import spark_jars

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

log = logging.getLogger("eagre")

LOCAL_SLOTS = 64
"""Task slots of a local session that names no master. A slot is a thread; in real time each source
and shuffle partition holds one for as long as the query runs, and most of them only wait."""


@dataclass(frozen=True)
class Setting:
    """One line of the latency profile."""

    key: str
    value: str
    reason: str
    effect: str


PROFILE = (
    Setting(
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs",
        "1",
        "A row waits in the streaming shuffle's buffer until it is full or this time is over; "
        "Spark's default is 50.",
        "count per key: p50 31 → 2.9 ms, p99 58 → 27 ms",
    ),
    Setting(
        "spark.sql.shuffle.partitions",
        "2",
        "In real time each shuffle partition holds a task slot for as long as the query runs; "
        "Spark's default is 200. It is fixed by the checkpoint: choose it once.",
        "count per key, 1 partition: p50 2.9 → 2.2 ms, p99 27 → 12 ms",
    ),
    Setting(
        "spark.default.parallelism",
        str(os.cpu_count() or 2),
        "A local session has more task slots than cores; batch reads beside the stream should not "
        "be cut into as many pieces.",
        "none on latency",
    ),
    Setting(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "Real time needs RocksDB; the same in micro-batch lets one checkpoint serve both modes.",
        "needed to change modes",
    ),
    Setting(
        "spark.sql.streaming.stateStore.checkpointFormatVersion",
        "2",
        "Real time needs state checkpoints of format 2; as above.",
        "needed to change modes",
    ),
    Setting(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "An epoch commits its changes instead of a whole snapshot.",
        "shorter epoch boundary with large state",
    ),
    Setting(
        "spark.sql.session.timeZone",
        "UTC",
        "Timestamps in JSON mean the same on every machine.",
        "none on latency",
    ),
    Setting(
        "spark.sql.adaptive.enabled",
        "false",
        "A streaming plan is fixed; adaptive planning only adds work at each epoch.",
        "shorter planning",
    ),
    Setting(
        "spark.ui.enabled",
        "false",
        "The Spark UI listens on a port and keeps history in memory; set it to true to have it.",
        "less memory and start-up time",
    ),
    Setting(
        "spark.ui.showConsoleProgress",
        "false",
        "A real-time stage never ends, so its progress bar says nothing.",
        "none on latency",
    ),
    Setting(
        "spark.driver.memory",
        "2g",
        "Room for young objects to die in; one gigabyte, Spark's default, collects twice as often.",
        "fewer pauses at p99",
    ),
)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Prepare any session builder for real time; call it last, before ``getOrCreate``.

    Appends to ``spark.jars``, never replaces it. A setting that the builder or
    ``spark-defaults.conf`` already holds is left alone and reported once.

    >>> from pyspark.sql import SparkSession
    >>> spark = configure(SparkSession.builder.master("local[4]")).getOrCreate()  # doctest: +SKIP

    Raises:
        JvmError: No fitting Java, Spark or jars.
    """
    _prepare_environment()
    stated = {**_spark_defaults(), **_stated(builder)}
    master = stated.get("spark.master", f"local[{LOCAL_SLOTS}]")
    builder.master(master)
    if master.startswith("local"):
        _keep_on_loopback(builder, stated)
    jars = [*class_path("spark", log.info), companion_jar()]
    builder.config("spark.jars", _appended(stated.get("spark.jars", ""), jars))
    builder.config("spark.driver.extraJavaOptions", _java_options(stated))
    for setting in PROFILE:
        _apply(builder, setting, stated)
    return builder


def session(app_name: str = "eagre", master: str | None = None, **settings: str) -> SparkSession:
    """Make a session with the latency profile.

    Args:
        app_name: Its name.
        master: Spark's master; ``local[64]`` if none is named.
        settings: Spark settings with ``__`` for the dots, as in ``spark__ui__enabled="true"``.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if master:
        builder.master(master)
    for key, value in settings.items():
        builder.config(key.replace("__", "."), value)
    return configure(builder).getOrCreate()


def _prepare_environment() -> None:
    spark_jars()
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _stated(builder: SparkSession.Builder) -> dict[str, str]:
    return {key: str(value) for key, value in builder._options.items()}  # noqa: SLF001


def _spark_defaults() -> dict[str, str]:
    """Read ``spark-defaults.conf`` where Spark itself would."""
    folder = os.environ.get("SPARK_CONF_DIR") or spark_jars().parent / "conf"
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.replace("=", " ", 1).split(None, 1) for line in map(str.strip, lines) if line)
    return {pair[0]: pair[1] for pair in pairs if len(pair) > 1 and not pair[0].startswith("#")}


def _keep_on_loopback(builder: SparkSession.Builder, stated: Mapping[str, str]) -> None:
    """Bind Spark's own ports, its UI included, to loopback in local mode."""
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    for key in ("spark.driver.bindAddress", "spark.driver.host"):
        if key not in stated:
            builder.config(key, LOOPBACK)


def _appended(stated: str, jars: list[Path]) -> str:
    present = [jar for jar in stated.split(",") if jar]
    return ",".join(dict.fromkeys([*present, *map(str, jars)]))


def _java_options(stated: Mapping[str, str]) -> str:
    """Choose the collector, unless the user did."""
    own = stated.get("spark.driver.extraJavaOptions", "")
    return own if "-XX:+Use" in own else f"-XX:+UseParallelGC {own}".strip()


def _apply(builder: Any, setting: Setting, stated: Mapping[str, str]) -> None:  # noqa: ANN401
    if setting.key not in stated:
        builder.config(setting.key, setting.value)
        return
    _report_once(setting, stated[setting.key])


_reported: set[tuple[str, str]] = set()


def _report_once(setting: Setting, value: str) -> None:
    if value == setting.value or (setting.key, value) in _reported:
        return
    _reported.add((setting.key, value))
    log.warning(
        "%s is %s by your own setting; the latency profile has %s. %s",
        setting.key,
        value,
        setting.value,
        setting.reason,
    )
