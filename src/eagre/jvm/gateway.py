"""The only code that talks to the JVM through py4j."""

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
    """Give a companion class by its name below ``dev.eagre``, after the version handshake.

    Raises:
        JvmError: The session was started without the companion, or with another release's.
    """
    known = _classes.get(spark.sparkContext) or _shaken_hands(spark)
    if name not in known:
        found = known[PACKAGE]
        for part in name.split("."):
            found = getattr(found, part)
        known[name] = found
    return known[name]


def _shaken_hands(spark: SparkSession) -> dict[str, Any]:
    package = spark._jvm.dev.eagre  # type: ignore[union-attr]  # noqa: SLF001
    if not callable(package.Companion):
        raise JvmError(
            "COMPANION_NOT_LOADED",
            "this Spark session was started without Eagre's companion jar.",
            hint="make it with eg.session(), or pass your builder through eg.configure(builder) "
            "before the first session of the process.",
        )
    check_version(package.Companion.version(), "the running Spark session")
    package.spark.SparkInternals.useSteadyClock()
    package.spark.SparkInternals.dropSettingSources(spark.sparkContext._jsc.sc())  # noqa: SLF001
    return _classes.setdefault(spark.sparkContext, {PACKAGE: package})


GONE_SECONDS = 2.0
"""How long a JVM that was killed may take to be gone."""

PLANNER_WARMUPS = 40
"""How often the planning of an epoch boundary is done beforehand, until its code is compiled."""

PACKAGE = "dev.eagre"

_classes: WeakKeyDictionary[SparkContext, dict[str, Any]] = WeakKeyDictionary()
"""The companion's classes, where it was found to be of this release. Each is found once: for every
package on the way to a class py4j has the JVM look through all of its jars for a class of that
name."""


def missing_members(spark: SparkSession) -> tuple[PrivateMember, ...]:
    """Name the private members of Spark that this session lacks; their features are off."""
    members = parsed(companion(spark, "spark.PrivateMember").report())
    return tuple(member for member in members if not member.available)


def function_column(
    spark: SparkSession, name: str, code: bytes, returns: str, options: str, arguments: Column
) -> Column:
    """Give a column that calls a Python function over the bridge."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    api = companion(spark, "python.PythonApi")
    return ClassicColumn(
        api.column(name, bytearray(code), returns, options, arguments._jc)  # noqa: SLF001
    )


def transform_with_state(  # noqa: PLR0913, PLR0917  (as Java has them)
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
    """Give the results of a Python processor in Spark's own operator."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    groups = grouped._jgd  # noqa: SLF001  (PySpark offers no public way, here and below)
    first = initial._jgd if initial is not None else None  # noqa: SLF001
    rows = companion(spark, "python.PythonApi").transform(
        groups, first, bytearray(code), declared, output, time_mode, options, tick_ms
    )
    return ClassicDataFrame(rows, spark)


def warm_workers(spark: SparkSession, options: str) -> None:
    """Start what Python workers are forked from, before the first row needs them."""
    companion(spark, "python.PythonApi").warm(options)


def operator(rows: DataFrame, name: str, keys: int, spec: str, results: str) -> DataFrame:
    """Put an operator over rows, of which the first columns are its key."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    spark = rows.sparkSession
    made = companion(spark, "operators.OperatorsApi").over(rows._jdf, name, keys, spec, results)  # noqa: SLF001
    return ClassicDataFrame(made, spark)


def stateful_parts(rows: DataFrame) -> list[str]:
    """Name the stateful parts that rows come through; ``:updates`` marks what repeats results."""
    below = companion(rows.sparkSession, "operators.OperatorsApi").below(rows._jdf)  # noqa: SLF001
    return [str(name) for name in below]


def packed(spark: SparkSession, struct: Column, schema: str) -> Column:
    """Give a struct as bytes, as operators carry it."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(companion(spark, "operators.OperatorsApi").packed(struct._jc, schema))  # noqa: SLF001


def unpacked(spark: SparkSession, column: Column, schema: str) -> Column:
    """Give such bytes as a struct."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(companion(spark, "operators.OperatorsApi").unpacked(column._jc, schema))  # noqa: SLF001


def with_provenance(rows: DataFrame, aligned: Sequence[str]) -> DataFrame:
    """Give the rows with their provenance, carried through the plan where the user dropped it.

    Raises:
        SettingsError: Results of this shape cannot be told apart by it.
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
    """Give the column with each result's identity; null for results delivered before."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(
        companion(spark, "delivery.DeliveryApi").identity(source._jc, prefix, delivered)  # noqa: SLF001
    )


def nothing_delivered(spark: SparkSession) -> Any:  # noqa: ANN401  (a py4j object)
    """Give the empty set of delivered results."""
    return companion(spark, "delivery.DeliveryApi").nothing(spark._jsparkSession)  # noqa: SLF001


@dataclass(frozen=True)
class Part:
    """A part of some topics.

    Attributes:
        settings: The Kafka client's, to read it with.
        starts: Where it begins, by topic and partition, as JSON.
        ends: Where it ends.
    """

    settings: dict[str, str]
    starts: str
    ends: str


def scan_delivered(
    spark: SparkSession, part: Part, pipeline: str, fenced: int, committed: str, rule: str
) -> Any:  # noqa: ANN401  (a py4j object)
    """Collect the identities of the results in a part of the output."""
    session = spark._jsparkSession  # noqa: SLF001
    where = (part.settings, part.starts, part.ends)
    return companion(spark, "delivery.DeliveryApi").scan(
        session, *where, pipeline, fenced, committed, rule
    )


def scan_dead_letters(spark: SparkSession, part: Part, pipeline: str, committed: str) -> str:
    """Collect the dead letters in a part of their topics; ``EarlierDeadLetters.java`` reads it."""
    where = (part.settings, part.starts, part.ends)
    return str(companion(spark, "delivery.DeliveryApi").deadLetters(*where, pipeline, committed))


def delivered_size(spark: SparkSession, delivered: Any) -> int:  # noqa: ANN401  (a py4j object)
    """How many results a scan found."""
    return int(companion(spark, "delivery.DeliveryApi").size(delivered))


def reach(spark: SparkSession, delivered: Any, dead_letters: str) -> str:  # noqa: ANN401  (a py4j object)
    """Give the highest source offsets among results and dead letters, as JSON."""
    return str(companion(spark, "delivery.DeliveryApi").reach(delivered, dead_letters))


def lock(spark: SparkSession, file: Path, wait_seconds: float) -> bool:
    """Take a lock for as long as the JVM lives; tell whether it was to be had in time."""
    return bool(companion(spark, "delivery.DeliveryApi").lock(str(file), int(wait_seconds * 1000)))


def upserts(rows: DataFrame, spec: str) -> DataStreamWriter:
    """Give a write of rows, and their versions, into a database; the spec holds no secret."""
    writer = rows.writeStream.outputMode("update")
    java = companion(rows.sparkSession, "sinks.UpsertWriter")(spec)
    writer._jwrite.foreach(java)  # noqa: SLF001  (PySpark's own foreach takes Python only)
    return writer


def upserted(spark: SparkSession) -> int | None:
    """How many rows databases have taken from this JVM; None where executors write them."""
    if not str(spark.sparkContext.master).startswith("local"):
        return None
    return int(companion(spark, "sinks.UpsertWriter").written())


def accepted(spark: SparkSession, rules: str, record: Sequence[Column]) -> Column:
    """Give the columns of a record's value as a struct; null where the rules dealt with it."""
    return _dead_letter_column(spark, "accepted", rules, record)


def fits(spark: SparkSession, rules: str, arguments: Sequence[Column]) -> Column:
    """Tell whether a record is small enough for the sink; the rules deal with one that is not."""
    return _dead_letter_column(spark, "fits", rules, arguments)


def row_by_row(df: DataFrame) -> bool:
    """Tell whether each row is processed before the next: nothing buffers, sorts or joins rows."""
    return bool(companion(df.sparkSession, "spark.PlanShape").rowByRow(df._jdf))  # noqa: SLF001


def _dead_letter_column(
    spark: SparkSession, name: str, rules: str, columns: Sequence[Column]
) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    given = spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]  # noqa: SLF001
    for column in columns:
        given.add(column._jc)  # noqa: SLF001
    return ClassicColumn(getattr(companion(spark, "deadletter.DeadLetterApi"), name)(rules, given))


def row_counts(spark: SparkSession) -> dict[str, int]:
    """How many rows were dropped or dead-lettered in the driver's JVM, by ``pipeline/fate``."""
    return dict(json.loads(companion(spark, "metrics.RowCounters").all()))


def suspects(spark: SparkSession, pipeline: str | None = None) -> list[tuple[str, int, int]]:
    """Give the rows that tasks failed at, as topic, partition and offset, the oldest first.

    Outages, kills and failures that the user asked for (``on_error="fail"``) are not among them.
    """
    return [
        (str(topic), int(partition), int(offset))
        for name, topic, partition, offset in companion(spark, "deadletter.SuspectRecords").all()
        if pipeline in (None, name)
    ]


def drain(spark: SparkSession, query: StreamingQuery) -> None:
    """Let the running epoch or micro-batch end and commit; start no other."""
    companion(spark, "spark.SparkInternals").drain(_java_query(query))


def cache_plans(spark: SparkSession, query: StreamingQuery) -> None:
    """Plan each epoch from the one before: only the start offsets of its sources have changed."""
    companion(spark, "plan.PlanCache").install(_java_query(query))


def warm_up_planner(
    spark: SparkSession, query: StreamingQuery, times: int = PLANNER_WARMUPS
) -> Any:  # noqa: ANN401  (a py4j object)
    """Plan the running epoch some times in the background: epoch boundaries are quicker then."""
    return companion(spark, "plan.PlannerWarmup").start(_java_query(query), times)


def supported_commits(df: DataFrame) -> str:
    """Tell which mid-epoch commits a real-time query over these rows supports.

    Returns:
        ``rows`` where each row is processed before the next is read, ``pause`` where the sources
        pause for a moment, ``state`` where the state is written meanwhile; empty for none.
    """
    return str(companion(df.sparkSession, "CommitApi").supported(df._jdf))  # noqa: SLF001


class MidEpochCommits:
    """Commits a running query while its epoch goes on."""

    def __init__(self, spark: SparkSession, query: StreamingQuery, *, pauses: bool) -> None:
        self._java = companion(spark, "CommitApi").start(_java_query(query), pauses)

    def request(self) -> None:
        """Request a commit; it is done when the producers have sent what they hold."""
        self._java.request()

    def close(self, wait_seconds: float) -> bool:
        """Pause the sources and commit the rows in flight; tell whether they were done in time."""
        return bool(self._java.close(int(wait_seconds * 1000)))

    def release(self) -> None:
        """Resume the sources once the query has ended: another one may run in this JVM."""
        self._java.release()

    @property
    def under_way(self) -> bool:
        """Whether a commit was requested and is not done yet."""
        return bool(self._java.underWay())

    def result(self) -> dict[str, Any] | None:
        """Give the commit that was requested; None where there is none."""
        result = str(self._java.result())
        return json.loads(result) if result else None


def ended(spark: SparkSession, query: StreamingQuery) -> bool:
    """Tell whether the query's thread is over; ``isActive`` is false as soon as a drain began."""
    return bool(companion(spark, "spark.SparkInternals").ended(_java_query(query)))


def has_run(spark: SparkSession, query: StreamingQuery) -> bool:
    """Tell whether a query came to run any job: one that Spark refuses in planning did not."""
    return bool(spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId)))


def physical_plan(spark: SparkSession, query: StreamingQuery) -> list[dict[str, Any]]:
    """Give the operators that run now, inputs before what they feed; empty before the first."""
    return list(
        json.loads(companion(spark, "spark.SparkInternals").physicalPlan(_java_query(query)))
    )


def uses_processing_time(df: DataFrame) -> bool:
    """Tell whether a query has timers or TTL by the wall clock."""
    internals = companion(df.sparkSession, "spark.SparkInternals")
    return bool(internals.usesProcessingTime(df._jdf))  # noqa: SLF001


@dataclass(frozen=True)
class Vitals:
    """How a JVM fares at a moment.

    Attributes:
        pauses: Collections so far that stopped the program.
        paused_ms: How long together.
        longest_pause_ms: The longest since the last question.
        heap_mb: Memory in use.
        lag: Records not yet fetched, by ``topic/partition``, as its consumers know it; on a cluster
            there are none.
        consumed: Records that its consumers took; it changes as long as any of them reads.
        waits: By ``topic/partition``, the records read, how long in ms they had waited in their
            topic together, and the longest of it since the last question.
    """

    pauses: int
    paused_ms: int
    longest_pause_ms: int
    heap_mb: int
    lag: dict[str, int]
    consumed: int
    waits: dict[str, list[int]]


def vitals(spark: SparkSession) -> Vitals:
    """Ask the session's JVM how it fares, all in one question."""
    return Vitals(**json.loads(companion(spark, "metrics.JvmMetrics").report()))


def place(name: str) -> tuple[str, int]:
    """Read a partition's name.

    >>> place("payments/0")
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
    """Give the queries that run in a session."""
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
    """Give every setting of a session that was set, its context's included, in one call."""
    told: dict[str, str] = json.loads(
        companion(spark, "spark.SparkInternals").settings(spark._jsparkSession)  # noqa: SLF001
    )
    return told


def slots(spark: SparkSession) -> int | None:
    """How many tasks a session can run at once; None where a cluster may still grow."""
    conf = settings(spark)
    cores = _cores(spark, str(spark.sparkContext.master), conf)
    return None if cores is None else cores // int(conf.get("spark.task.cpus", "1"))


def _cores(spark: SparkSession, master: str, conf: dict[str, str]) -> int | None:
    local = re.match(r"local(?:\[(\d+|\*)[^\]]*\])?$", master)
    if local:
        threads = local[1] or "1"
        return int(threads) if threads.isdigit() else _processors(spark)
    small = re.match(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,", master)
    if small:
        return int(small[1]) * int(small[2])
    instances, cores = (conf.get(f"spark.executor.{k}") for k in ("instances", "cores"))
    fixed = conf.get("spark.dynamicAllocation.enabled", "false").lower() != "true"
    return int(instances) * int(cores) if instances and cores and fixed else None


def _processors(spark: SparkSession) -> int:
    """The cores that the JVM counts: in a container fewer than the machine's."""
    jvm = spark._jvm  # noqa: SLF001
    return int(jvm.java.lang.Runtime.getRuntime().availableProcessors())  # type: ignore[union-attr]


def library_folders() -> tuple[str, ...]:
    """Where PySpark and py4j lie: their frames are not the user's."""
    import py4j
    import pyspark

    return tuple(str(Path(str(library.__file__)).parent) for library in (pyspark, py4j))


def jvm_gone(error: BaseException) -> bool:
    """Tell whether an error only says that the JVM no longer answers.

    Where it dies as a class is looked up, py4j says that there is no such class.
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
    """Say in one line what a PySpark or JVM error was about, without its stack trace."""
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
    return query._jsq  # noqa: SLF001  (PySpark offers no public way to the Java query)
