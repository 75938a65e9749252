"""Calls to the JVM: the only code that uses py4j."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from eagre.errors import JvmError, SettingsError
from eagre.jvm.companion import check_version
from eagre.jvm.private_members import PrivateMember, parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.group import GroupedData
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


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


GONE_SECONDS = 2.0
"""How long to wait for a killed JVM to exit."""

PLANNER_WARMUPS = 40
"""How often the planner runs in advance, so that its code is compiled at the epoch boundary."""

PACKAGE = "dev.eagre"

_classes: WeakKeyDictionary[SparkContext, dict[str, Any]] = WeakKeyDictionary()
"""The companion's classes by session, after the handshake. The cache avoids repeated lookups: for
every package in a class name, py4j makes the JVM search all of its jars for a class of that
name."""


def missing_members(spark: SparkSession) -> tuple[PrivateMember, ...]:
    """Return the private members of Spark that this session lacks; their features are off."""
    members = parsed(companion(spark, "spark.PrivateMember").report())
    return tuple(member for member in members if not member.available)


def function_column(
    spark: SparkSession, name: str, code: bytes, returns: str, options: str, arguments: Column
) -> Column:
    """Return a column that calls a Python function in a worker."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    api = companion(spark, "python.PythonApi")
    return ClassicColumn(
        api.column(name, bytearray(code), returns, options, arguments._jc)  # noqa: SLF001
    )


def transform_with_state(  # noqa: PLR0913, PLR0917  (as in Java)
    spark: SparkSession,
    grouped: GroupedData,
    initial: GroupedData | None,
    code: bytes,
    declared: str,
    output: str,
    time_mode: str,
    options: str,
    tick_ms: int,
) -> DataFrame:
    """Return the results of a Python processor that runs in Spark's operator."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    groups = grouped._jgd  # noqa: SLF001  (PySpark offers no public way, here and below)
    first = initial._jgd if initial is not None else None  # noqa: SLF001
    rows = companion(spark, "python.PythonApi").transform(
        groups, first, bytearray(code), declared, output, time_mode, options, tick_ms
    )
    return ClassicDataFrame(rows, spark)


def warm_workers(spark: SparkSession, options: str) -> None:
    """Start the worker daemon before the first row needs it."""
    companion(spark, "python.PythonApi").warm(options)


def operator(rows: DataFrame, name: str, keys: int, spec: str, results: str) -> DataFrame:
    """Apply an operator to rows; their first columns are its key."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    spark = rows.sparkSession
    applied = companion(spark, "operators.OperatorsApi").over(rows._jdf, name, keys, spec, results)  # noqa: SLF001
    return ClassicDataFrame(applied, spark)


def stateful_parts(rows: DataFrame) -> list[str]:
    """Return the stateful operators before these rows; ``:updates`` marks those with updates."""
    below = companion(rows.sparkSession, "operators.OperatorsApi").below(rows._jdf)  # noqa: SLF001
    return [str(name) for name in below]


def packed(spark: SparkSession, struct: Column, schema: str) -> Column:
    """Return a struct packed into bytes, for operators."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(companion(spark, "operators.OperatorsApi").packed(struct._jc, schema))  # noqa: SLF001


def unpacked(spark: SparkSession, column: Column, schema: str) -> Column:
    """Return packed bytes as a struct."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(companion(spark, "operators.OperatorsApi").unpacked(column._jc, schema))  # noqa: SLF001


def with_provenance(rows: DataFrame, aligned: Sequence[str]) -> DataFrame:
    """Return the rows with their provenance, restored in the plan if the user dropped it.

    Raises:
        SettingsError: Provenance does not identify the results of this pipeline.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    spark = rows.sparkSession
    try:
        carried = companion(spark, "delivery.DeliveryApi").carried(rows._jdf, list(aligned))  # noqa: SLF001
    except (Py4JJavaError, CapturedException) as error:
        refusal = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        if refusal is None or "UnsupportedPipeline" not in str(refusal.getClass()):
            raise
        raise SettingsError(
            str(refusal.getCode()), f"{refusal.getMessage()}.", hint=str(refusal.getHint())
        ) from None
    return ClassicDataFrame(carried, spark)


def identity_column(spark: SparkSession, source: Column, prefix: str, delivered: Any) -> Column:  # noqa: ANN401
    """Return the column with each result's identity; null for delivered results."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(
        companion(spark, "delivery.DeliveryApi").identity(source._jc, prefix, delivered)  # noqa: SLF001
    )


def nothing_delivered(spark: SparkSession) -> Any:  # noqa: ANN401  (a py4j object)
    """Return the empty set of delivered results."""
    return companion(spark, "delivery.DeliveryApi").nothing(spark._jsparkSession)  # noqa: SLF001


@dataclass(frozen=True)
class Part:
    """An offset range of some topics.

    Attributes:
        settings: The settings of the Kafka client that reads it.
        starts: The start offsets by topic and partition, as JSON.
        ends: The end offsets, as JSON.
    """

    settings: dict[str, str]
    starts: str
    ends: str


def scan_delivered(
    spark: SparkSession, part: Part, pipeline: str, fenced: int, committed: str, rule: str
) -> Any:  # noqa: ANN401  (a py4j object)
    """Collect the identities of the results in an offset range of the output."""
    session = spark._jsparkSession  # noqa: SLF001
    offsets = (part.settings, part.starts, part.ends)
    return companion(spark, "delivery.DeliveryApi").scan(
        session, *offsets, pipeline, fenced, committed, rule
    )


def scan_dead_letters(spark: SparkSession, part: Part, pipeline: str, committed: str) -> str:
    """Collect the dead letters in an offset range; ``EarlierDeadLetters.java`` reads the result."""
    offsets = (part.settings, part.starts, part.ends)
    return str(companion(spark, "delivery.DeliveryApi").deadLetters(*offsets, pipeline, committed))


def delivered_size(spark: SparkSession, delivered: Any) -> int:  # noqa: ANN401  (a py4j object)
    """Return the number of results in a scan."""
    return int(companion(spark, "delivery.DeliveryApi").size(delivered))


def reach(spark: SparkSession, delivered: Any, dead_letters: str) -> str:  # noqa: ANN401  (a py4j object)
    """Return the highest source offsets among results and dead letters, as JSON."""
    return str(companion(spark, "delivery.DeliveryApi").reach(delivered, dead_letters))


def lock(spark: SparkSession, file: Path, wait_seconds: float) -> bool:
    """Acquire a lock for the lifetime of the JVM; return whether it was acquired in time."""
    return bool(companion(spark, "delivery.DeliveryApi").lock(str(file), int(wait_seconds * 1000)))


def upserts(rows: DataFrame, spec: str) -> DataStreamWriter:
    """Return a write of rows and their versions to a database; the spec contains no secrets."""
    writer = rows.writeStream.outputMode("update")
    java = companion(rows.sparkSession, "sinks.UpsertWriter")(spec)
    writer._jwrite.foreach(java)  # noqa: SLF001  (PySpark's foreach accepts only Python)
    return writer


def upserted(spark: SparkSession) -> int | None:
    """Return how many rows this JVM has written to databases; None if executors write them."""
    if not str(spark.sparkContext.master).startswith("local"):
        return None
    return int(companion(spark, "sinks.UpsertWriter").written())


def accepted(spark: SparkSession, rules: str, record: Sequence[Column]) -> Column:
    """Return the columns of a record's value as a struct; null if the error policy handled it."""
    return _dead_letter_column(spark, "accepted", rules, record)


def fits(spark: SparkSession, rules: str, arguments: Sequence[Column]) -> Column:
    """Return whether a record fits into the sink; the error policy handles larger ones."""
    return _dead_letter_column(spark, "fits", rules, arguments)


def row_by_row(df: DataFrame) -> bool:
    """Return whether each row is processed before the next: nothing buffers or sorts rows."""
    return bool(companion(df.sparkSession, "spark.PlanShape").rowByRow(df._jdf))  # noqa: SLF001


def _dead_letter_column(
    spark: SparkSession, name: str, rules: str, columns: Sequence[Column]
) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    arguments = spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]  # noqa: SLF001
    for column in columns:
        arguments.add(column._jc)  # noqa: SLF001
    function = getattr(companion(spark, "deadletter.DeadLetterApi"), name)
    return ClassicColumn(function(rules, arguments))


def row_counts(spark: SparkSession) -> dict[str, int]:
    """Return how many rows the driver's JVM dropped or dead-lettered, by ``pipeline/fate``."""
    return dict(json.loads(companion(spark, "metrics.RowCounters").all()))


def suspects(spark: SparkSession, pipeline: str | None = None) -> list[tuple[str, int, int]]:
    """Return the records at which tasks failed, as topic, partition and offset, oldest first.

    They exclude outages, kills and intended failures (``on_error="fail"``).
    """
    return [
        (str(topic), int(partition), int(offset))
        for name, topic, partition, offset in companion(spark, "deadletter.SuspectRecords").all()
        if pipeline in (None, name)
    ]


def drain(spark: SparkSession, query: StreamingQuery) -> None:
    """Finish and commit the current epoch or micro-batch, and do not start another."""
    companion(spark, "spark.SparkInternals").drain(_java_query(query))


def cache_plans(spark: SparkSession, query: StreamingQuery) -> None:
    """Reuse the plan of the previous epoch: only the start offsets of its sources change."""
    companion(spark, "plan.PlanCache").install(_java_query(query))


def warm_up_planner(
    spark: SparkSession, query: StreamingQuery, times: int = PLANNER_WARMUPS
) -> Any:  # noqa: ANN401  (a py4j object)
    """Plan the current epoch repeatedly in the background, for faster epoch boundaries."""
    return companion(spark, "plan.PlannerWarmup").start(_java_query(query), times)


def supported_commits(df: DataFrame) -> str:
    """Return the kind of mid-epoch commit that a real-time query over these rows supports.

    Returns:
        ``rows`` if each row is processed before the next is read, ``pause`` if the sources pause
        for a moment, ``state`` if the pause also writes the state; empty for none.
    """
    return str(companion(df.sparkSession, "CommitApi").supported(df._jdf))  # noqa: SLF001


class MidEpochCommits:
    """Commits a running query in the middle of its epoch."""

    def __init__(self, spark: SparkSession, query: StreamingQuery, *, pauses: bool) -> None:
        self._java = companion(spark, "CommitApi").start(_java_query(query), pauses)

    def request(self) -> None:
        """Request a commit; it completes when the producers have sent their buffered records."""
        self._java.request()

    def close(self, wait_seconds: float) -> bool:
        """Pause the sources and commit the rows in flight; return whether that was in time."""
        return bool(self._java.close(int(wait_seconds * 1000)))

    def release(self) -> None:
        """Resume the sources after the query has ended: another query may run in this JVM."""
        self._java.release()

    @property
    def under_way(self) -> bool:
        """Whether a commit was requested and is not complete yet."""
        return bool(self._java.underWay())

    def result(self) -> dict[str, Any] | None:
        """Return the requested commit; None if there is none."""
        result = str(self._java.result())
        return json.loads(result) if result else None


def ended(spark: SparkSession, query: StreamingQuery) -> bool:
    """Return whether the query's thread has ended; ``isActive`` is false once a drain starts."""
    return bool(companion(spark, "spark.SparkInternals").ended(_java_query(query)))


def has_run(spark: SparkSession, query: StreamingQuery) -> bool:
    """Return whether a query has run a job: a query that fails in planning has not."""
    return bool(spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId)))


def physical_plan(spark: SparkSession, query: StreamingQuery) -> list[dict[str, Any]]:
    """Return the running operators, inputs first; empty before the first epoch."""
    return list(
        json.loads(companion(spark, "spark.SparkInternals").physicalPlan(_java_query(query)))
    )


def uses_processing_time(df: DataFrame) -> bool:
    """Return whether a query has processing-time timers or TTL."""
    internals = companion(df.sparkSession, "spark.SparkInternals")
    return bool(internals.usesProcessingTime(df._jdf))  # noqa: SLF001


@dataclass(frozen=True)
class JvmMetrics:
    """The current metrics of a JVM.

    Attributes:
        pauses: The number of GC pauses so far.
        paused_ms: Their total duration.
        longest_pause_ms: The longest pause since the last call.
        heap_mb: The heap in use.
        lag: Records not yet fetched, by ``topic/partition``, according to the JVM's consumers;
            empty on a cluster.
        consumed: Records that its consumers have fetched.
        waits: By ``topic/partition``: the number of records read, their total waiting time in the
            topic in ms, and the longest one since the last call.
    """

    pauses: int
    paused_ms: int
    longest_pause_ms: int
    heap_mb: int
    lag: dict[str, int]
    consumed: int
    waits: dict[str, list[int]]


def jvm_metrics(spark: SparkSession) -> JvmMetrics:
    """Return the metrics of the session's JVM, in one call."""
    return JvmMetrics(**json.loads(companion(spark, "metrics.JvmMetrics").report()))


# The earlier names, still used by runtime/.
Vitals = JvmMetrics
vitals = jvm_metrics


def parse_partition(name: str) -> tuple[str, int]:
    """Parse the name of a partition.

    >>> parse_partition("payments/0")
    ('payments', 0)
    """
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)


@dataclass(frozen=True)
class RunningQuery:
    """A query that runs in a session."""

    name: str
    real_time: bool
    checkpoint: str


def running_queries(spark: SparkSession) -> tuple[RunningQuery, ...]:
    """Return the queries that run in a session."""
    internals = companion(spark, "spark.SparkInternals")
    return tuple(
        RunningQuery(
            query.name or str(query.id),
            bool(internals.realTime(_java_query(query))),
            re.sub(r"^file:/+", "/", str(internals.checkpoint(_java_query(query)))),
        )
        for query in spark.streams.active
    )


def settings(spark: SparkSession) -> dict[str, str]:
    """Return all explicit settings of a session and its context, in one call."""
    internals = companion(spark, "spark.SparkInternals")
    return dict(json.loads(internals.settings(spark._jsparkSession)))  # noqa: SLF001


def slots(spark: SparkSession) -> int | None:
    """Return how many tasks a session can run at the same time; None for an elastic cluster."""
    conf = settings(spark)
    cores = _cores(spark, str(spark.sparkContext.master), conf)
    return None if cores is None else cores // int(conf.get("spark.task.cpus", "1"))


def _cores(spark: SparkSession, master: str, conf: dict[str, str]) -> int | None:
    local = re.match(r"local(?:\[(\d+|\*)[^\]]*\])?$", master)
    if local:
        threads = local[1] or "1"
        return int(threads) if threads.isdigit() else _processors(spark)
    local_cluster = re.match(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,", master)
    if local_cluster:
        return int(local_cluster[1]) * int(local_cluster[2])
    instances, cores = (conf.get(f"spark.executor.{k}") for k in ("instances", "cores"))
    fixed = conf.get("spark.dynamicAllocation.enabled", "false").lower() != "true"
    return int(instances) * int(cores) if instances and cores and fixed else None


def _processors(spark: SparkSession) -> int:
    """Return the JVM's number of cores, which respects the limits of a container."""
    jvm = spark._jvm  # noqa: SLF001
    return int(jvm.java.lang.Runtime.getRuntime().availableProcessors())  # type: ignore[union-attr]


def library_folders() -> tuple[str, ...]:
    """Return the folders of PySpark and py4j: their stack frames are not the user's."""
    import py4j
    import pyspark

    return tuple(str(Path(str(library.__file__)).parent) for library in (pyspark, py4j))


def jvm_gone(error: BaseException) -> bool:
    """Return whether an error means that the JVM has exited.

    If the JVM exits during a class lookup, py4j reports a missing class.
    """
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
    from pyspark import SparkContext

    if isinstance(error, ConnectionError | Py4JNetworkError):
        return True
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    if process is None or not isinstance(error, Py4JError) or isinstance(error, Py4JJavaError):
        return False
    try:
        process.wait(GONE_SECONDS)
    except TimeoutExpired:
        return False
    return True


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


def _java_query(query: StreamingQuery) -> Any:  # noqa: ANN401  (a py4j object)
    return query._jsq  # noqa: SLF001  (PySpark has no public access to the Java query)
