"""Spark sessions prepared for milliseconds: jars, loopback, and the profile.

Settings of the user always win over the profile, and each one that differs is reported once.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.config import LOOPBACK, megabytes
from eagre.jvm import class_path, companion_jar, find_java
from eagre.jvm.archive import archive, use
from eagre.jvm.spark_home import spark_jars
from eagre.profile import CHOICE, COLLECTOR, DEFAULT, PROFILE, Setting, clients, java_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

log = logging.getLogger("eagre")

LOCAL_SLOTS = 64
"""Task slots of a local session that names no master. A slot is a thread; in real time each source
and shuffle partition holds one for as long as the query runs, and most of them only wait."""


EXTENSIONS = "spark.sql.extensions"
RULES = "dev.eagre.SqlExtensions"
"""The companion's rules of planning: they let a plan call Python."""
PROVIDERS = "spark.sql.extensions.test.loadFromCp"
"""Spark need not load the class path's extensions: the companion does, and MLlib's when needed."""
NESTED_PRUNING = "spark.sql.optimizer.serializer.nestedSchemaPruning.enabled"
"""Spark 4.3 takes the wrong fields of a struct that passes a step over rows where this is on."""


SHUFFLE = "spark.shuffle.manager.incremental"
IN_PROCESS_SHUFFLE = "dev.eagre.shuffle.InProcessShuffle"
"""The shuffle of real time: rows go from thread to thread without a socket, and are counted."""
ONE_JVM = re.compile(r"local(\[[\w*]+\])?")
"""Masters whose tasks are threads of one JVM, none of which is tried again."""


CLASS_PATH = "spark.driver.extraClassPath"
"""The JVM's own: an archive holds the classes that are found there, not those of ``spark.jars``."""
REDACTION = "spark.redaction.regex"
SECRETS = "(?i)secret|password|token|access[.]?key|jaas|keystore[.]key|private key"
"""What Spark keeps out of plans and logs; its own default shows a Kafka client's private key."""


LOG_LEVEL = "spark.log.level"
"""Spark 4.3 ignores INFO: that is its root logger's level already, behind a filter for PySpark that
only a change of the level removes."""


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Prepare any session builder for real time; call it last, before ``getOrCreate``.

    Appends to ``spark.jars``, never replaces it. A setting that the builder,
    ``spark-defaults.conf`` or ``PYSPARK_SUBMIT_ARGS`` already holds is left alone and reported
    once.

    >>> from pyspark.sql import SparkSession
    >>> spark = configure(SparkSession.builder.master("local[4]")).getOrCreate()  # doctest: +SKIP

    ``spark.eagre.profile`` is ``latency`` or ``throughput`` (docs/reference/profile.md).

    Raises:
        JvmError: No fitting Java, Spark or jars.
        SettingsError: There is no such profile.
    """
    _prepare_environment()
    stated = {**_spark_defaults(), **_submit_arguments(), **_stated(builder)}
    profile = stated.get(CHOICE, DEFAULT)
    clients(profile)
    builder.config(CHOICE, profile)
    master = stated.get("spark.master", f"local[{LOCAL_SLOTS}]")
    builder.master(master)
    jars = [*class_path("spark", log.warning), companion_jar()]  # seen without logging set up
    builder.config("spark.jars", _appended(stated.get("spark.jars", ""), jars))
    if master.startswith("local"):
        _keep_on_loopback(builder, stated)
        own = stated.get(CLASS_PATH, "")
        builder.config(CLASS_PATH, _appended(own, jars, os.pathsep))
        if ONE_JVM.fullmatch(master):
            builder.config(SHUFFLE, stated.get(SHUFFLE, IN_PROCESS_SHUFFLE))
        stated[COLLECTOR.key] = _with_archive(stated.get(COLLECTOR.key, ""))
    builder.config(EXTENSIONS, _appended(stated.get(EXTENSIONS, ""), [RULES]))
    builder.config(PROVIDERS, "false")
    builder.config(NESTED_PRUNING, "false")
    builder.config(REDACTION, stated.get(REDACTION, SECRETS))
    for part in ("driver", "executor"):
        key = COLLECTOR.key.replace("driver", part)
        heap = stated.get(f"spark.{part}.memory", "1g")
        builder.config(key, _java_options(stated.get(key, ""), heap))
    for setting in PROFILE:
        _apply(builder, setting, stated)
    _add_to_submit_arguments(_stated(builder))
    return builder


def session(app_name: str = "eagre", master: str | None = None, **settings: str) -> SparkSession:
    """Make a session with the profile.

    Args:
        app_name: Its name.
        master: Spark's master; ``local[64]`` if none is named.
        settings: Spark settings with ``__`` for the dots, as in ``spark__ui__enabled="true"``;
            a name that has dots is taken as it is.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if master:
        builder.master(master)
    for key, value in settings.items():
        builder.config(key if "." in key else key.replace("__", "."), value)
    spark = configure(builder).getOrCreate()
    level = spark.conf.get(LOG_LEVEL, None)
    for one in ("OFF", level) if level else ():
        spark.sparkContext.setLogLevel(one)
    return spark


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
    pairs = (re.match(r"\s*([^#\s=:][^\s=:]*)[\s=:]+(.*\S)", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair}


def _submit_arguments() -> dict[str, str]:
    """Read ``--master`` and ``--conf`` from ``PYSPARK_SUBMIT_ARGS``."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    stated = {}
    for option, value in pairwise(words):
        if option == "--master":
            stated["spark.master"] = value
        elif option in ("--conf", "-c") and "=" in value:
            key, _, setting = value.partition("=")
            stated[key] = setting
    return stated


def _add_to_submit_arguments(settled: Mapping[str, str]) -> None:
    """Say again there what was added to a setting: PySpark has these outdo the builder's."""
    stated = _submit_arguments()
    added = {key: settled[key] for key in stated if settled.get(key, stated[key]) != stated[key]}
    if added:
        *words, app = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        again = [word for key, value in added.items() for word in ("--conf", f"{key}={value}")]
        os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*words, *again, app])


def _keep_on_loopback(builder: SparkSession.Builder, stated: Mapping[str, str]) -> None:
    """Bind Spark's own ports, its UI included, to loopback in local mode."""
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    for key in ("spark.driver.bindAddress", "spark.driver.host"):
        if key not in stated:
            builder.config(key, LOOPBACK)


def _with_archive(own: str) -> str:
    """Let the JVM find its classes ready, unless the user's options say how it is to start."""
    path = archive()
    if not path.exists() or re.search(r"-XX:(AOT|SharedArchive|ArchiveClasses)", own):
        return own
    return f"{use(path, find_java())} {own}".strip()


def _appended(stated: str, more: Sequence[Path | str], between: str = ",") -> str:
    present = [item for item in stated.split(between) if item]
    return between.join(dict.fromkeys([*present, *map(str, more)]))


def _java_options(own: str, heap: str) -> str:
    """Choose the collector and lay out the heap, unless the user did."""
    chosen = re.search(r"-XX:\+Use\w*GC\b|-Xm[sn]\d", own)
    return own if chosen else f"{java_options(megabytes(heap))} {own}".strip()


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
        "%s is %s by your own setting; the profile has %s. %s",
        setting.key,
        value,
        setting.value,
        setting.reason,
    )
