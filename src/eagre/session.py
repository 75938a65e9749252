"""Spark sessions for low latency: jars, loopback addresses, and the profile.

The user's settings take precedence over the profile. Eagre logs each difference once.
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
from eagre.jvm.jars import jar_set
from eagre.jvm.spark_home import spark_jars
from eagre.profile import CHOICE, DEFAULT, GC_OPTIONS, PROFILE, Setting, clients, java_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

log = logging.getLogger("eagre")

LOCAL_SLOTS = 64
"""Task slots of a local session without an explicit master. A slot is a thread. In real time each
source and shuffle partition occupies one while the query runs, and most of them wait."""


EXTENSIONS = "spark.sql.extensions"
RULES = "dev.eagre.SqlExtensions"
"""The companion's planner rules: they enable calls to Python."""
PROVIDERS = "spark.sql.extensions.test.loadFromCp"
"""Off: the companion loads the class path's extensions, and MLlib's only when needed."""
NESTED_PRUNING = "spark.sql.optimizer.serializer.nestedSchemaPruning.enabled"
"""Off: with it, Spark 4.3 reads the wrong fields of a struct in a typed operator."""


SHUFFLE = "spark.shuffle.manager.incremental"
IN_PROCESS_SHUFFLE = "dev.eagre.shuffle.InProcessShuffle"
"""The in-process shuffle of real time: threads exchange rows without sockets, and count them."""
ONE_JVM = re.compile(r"local(\[[\w*]+\])?")
"""Masters whose tasks are threads of one JVM, and which do not retry tasks."""
THREADS = re.compile(r"local(\[.*\])?")
"""Masters whose tasks are threads of the driver's JVM; with the others they run on executors."""
COUNTED_SHUFFLE = "dev.eagre.shuffle.CountedShuffle"
"""Spark's streaming shuffle between executors, which counts its rows for commits."""
PLUGINS = "spark.plugins"
COMMIT_PLUGIN = "dev.eagre.cluster.CommitPlugin"
"""Lets the driver commit within an epoch what executors have processed."""
ATTEMPTS = "spark.task.maxFailures"
"""A task that is tried again starts at the beginning of its epoch, and repeats its results."""


CLASS_PATH = "spark.driver.extraClassPath"
"""The JVM's class path: a startup archive contains its classes, not those of ``spark.jars``."""
FURTHER_JARS = "spark.eagre.jars"
"""Further sets of jars, such as ``s3``, by their names with commas."""
REDACTION = "spark.redaction.regex"
SECRETS = "(?i)secret|password|token|access[.]?key|jaas|keystore[.]key|private key"
"""What Spark redacts in plans and logs; its default exposes a Kafka client's private key."""


NO_COUNTERS = "-XX:-UsePerfData"
"""A JVM keeps counters in a file in ``/tmp``: a killed one leaves it, and a slow disk delays GC."""


TEMPORARY = "EAGRE_RUN_TMPDIR"
"""The environment variable in which ``eagre run`` names the folder for a driver's temporary files.
A later run sweeps it if the driver is killed. Java itself ignores ``TMPDIR``."""


LOG_LEVEL = "spark.log.level"
"""Spark 4.3 ignores INFO: that is its root logger's level already, behind a filter for PySpark that
only a change of the level removes."""


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Prepare a session builder for real time; call it last, before ``getOrCreate``.

    It appends to ``spark.jars`` and never replaces it. It keeps every setting that the builder,
    ``spark-defaults.conf`` or ``PYSPARK_SUBMIT_ARGS`` already contains, and logs each one that
    differs from the profile once.

    >>> from pyspark.sql import SparkSession
    >>> spark = configure(SparkSession.builder.master("local[4]")).getOrCreate()  # doctest: +SKIP

    ``spark.eagre.profile`` is ``latency`` or ``throughput`` (docs/reference/profile.md).

    Raises:
        JvmError: No suitable Java, Spark or jars were found.
        SettingsError: The profile is unknown.
    """
    _prepare_environment()
    stated = {**_spark_defaults(), **_submit_arguments(), **_builder_options(builder)}
    profile = stated.get(CHOICE, DEFAULT)
    clients(profile)
    builder.config(CHOICE, profile)
    master = stated.get("spark.master", f"local[{LOCAL_SLOTS}]")
    builder.master(master)
    jars = [*class_path("spark", log.warning), companion_jar()]  # visible without logging set-up
    for name in filter(None, stated.get(FURTHER_JARS, "").split(",")):
        jars += class_path(jar_set(name), log.warning)
    builder.config("spark.jars", _appended(stated.get("spark.jars", ""), jars))
    builder.config(CLASS_PATH, _appended(stated.get(CLASS_PATH, ""), jars, os.pathsep))
    if master.startswith("local"):
        _keep_on_loopback(builder, stated)
        if ONE_JVM.fullmatch(master):
            builder.config(SHUFFLE, stated.get(SHUFFLE, IN_PROCESS_SHUFFLE))
        stated[GC_OPTIONS.key] = _with_archive(stated.get(GC_OPTIONS.key, ""))
    if not THREADS.fullmatch(master):
        builder.config(SHUFFLE, stated.get(SHUFFLE, COUNTED_SHUFFLE))
        builder.config(PLUGINS, _appended(stated.get(PLUGINS, ""), [COMMIT_PLUGIN]))
        builder.config(ATTEMPTS, stated.get(ATTEMPTS, "1"))
    builder.config(EXTENSIONS, _appended(stated.get(EXTENSIONS, ""), [RULES]))
    builder.config(PROVIDERS, "false")
    builder.config(NESTED_PRUNING, "false")
    builder.config(REDACTION, stated.get(REDACTION, SECRETS))
    for part in ("driver", "executor"):
        key = GC_OPTIONS.key.replace("driver", part)
        heap = stated.get(f"spark.{part}.memory", "1g")
        options = _java_options(stated.get(key, ""), heap)
        builder.config(key, _with_temporary_folder(options) if part == "driver" else options)
    for setting in PROFILE:
        _apply(builder, setting, stated)
    _add_to_submit_arguments(_builder_options(builder))
    return builder


def session(app_name: str = "eagre", master: str | None = None, **settings: str) -> SparkSession:
    """Create a session with the profile.

    Args:
        app_name: The name of the application.
        master: Spark's master. Default: ``local[64]``.
        settings: Spark settings with ``__`` for dots, as in ``spark__ui__enabled="true"``.
            A name that has dots is used as it is.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if master:
        builder.master(master)
    for key, value in settings.items():
        builder.config(key if "." in key else key.replace("__", "."), value)
    spark = configure(builder).getOrCreate()
    level = spark.conf.get(LOG_LEVEL, None)
    for name in ("OFF", level) if level else ():
        spark.sparkContext.setLogLevel(name)
    return spark


def stated_master(master: str | None, settings: Mapping[str, str]) -> str:
    """Return the master of a session with these settings, before there is one."""
    stated = {**_spark_defaults(), **_submit_arguments(), **settings}
    return master or stated.get("spark.master", f"local[{LOCAL_SLOTS}]")


def _prepare_environment() -> None:
    spark_jars()
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _builder_options(builder: SparkSession.Builder) -> dict[str, str]:
    return {key: str(value) for key, value in builder._options.items()}  # noqa: SLF001


def _spark_defaults() -> dict[str, str]:
    """Read ``spark-defaults.conf`` from the folder that Spark uses."""
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


def _add_to_submit_arguments(options: Mapping[str, str]) -> None:
    """Repeat changed settings in the submit arguments, which override the builder in PySpark."""
    stated = _submit_arguments()
    changed = {key: options[key] for key in stated if options.get(key, stated[key]) != stated[key]}
    if changed:
        *words, app = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        confs = [word for key, value in changed.items() for word in ("--conf", f"{key}={value}")]
        os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*words, *confs, app])


def _keep_on_loopback(builder: SparkSession.Builder, stated: Mapping[str, str]) -> None:
    """Bind Spark's ports, including its UI, to loopback in local mode."""
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    for key in ("spark.driver.bindAddress", "spark.driver.host"):
        if key not in stated:
            builder.config(key, LOOPBACK)


def _with_archive(options: str) -> str:
    """Add the startup archive to the JVM options, unless the user's options choose one."""
    path = archive()
    if not path.exists() or re.search(r"-XX:(AOT|SharedArchive|ArchiveClasses)", options):
        return options
    return f"{use(path, find_java())} {options}".strip()


def _appended(value: str, items: Sequence[Path | str], separator: str = ",") -> str:
    present = [item for item in value.split(separator) if item]
    return separator.join(dict.fromkeys([*present, *map(str, items)]))


def _java_options(options: str, heap: str) -> str:
    """Add what the user's options do not choose: the GC and the heap layout; no counters."""
    counters = "" if "UsePerfData" in options else NO_COUNTERS
    chosen = re.search(r"-XX:\+Use\w*GC\b|-Xm[sn]\d", options)
    gc = "" if chosen else java_options(megabytes(heap))
    return " ".join(part for part in (counters, gc, options) if part)


def _with_temporary_folder(options: str) -> str:
    """Let the driver's JVM keep its temporary files in the run's folder, if there is one."""
    folder = os.environ.get(TEMPORARY)
    if not folder or "java.io.tmpdir" in options:
        return options
    return f"{options} {shlex.quote(f'-Djava.io.tmpdir={folder}')}"


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
        "you set %s to %s; the profile uses %s. %s",
        setting.key,
        value,
        setting.value,
        setting.reason,
    )
