"""Columns, operators and sinks of the companion in a plan, and what a plan allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.jvm.gateway.handshake import companion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.group import GroupedData
    from pyspark.sql.streaming.readwriter import DataStreamWriter


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


def subscriptions(rows: DataFrame) -> list[list[str]]:
    """Return the topics of each streaming source, as Spark orders them; empty if one has none."""
    topics = companion(rows.sparkSession, "CommitApi").subscriptions(rows._jdf)  # noqa: SLF001
    return [[topic.strip() for topic in str(subscribed).split(",")] for subscribed in topics]


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


def parsed(spark: SparkSession, rules: str, record: Sequence[Column]) -> Column:
    """Return the columns of a record's value as a struct; null if the error policy handled it."""
    return _dead_letter_column(spark, "parsed", rules, record)


def fits(spark: SparkSession, rules: str, arguments: Sequence[Column]) -> Column:
    """Return whether a record fits into the sink; the error policy handles larger ones."""
    return _dead_letter_column(spark, "fits", rules, arguments)


def _dead_letter_column(
    spark: SparkSession, name: str, rules: str, columns: Sequence[Column]
) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    arguments = spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]  # noqa: SLF001
    for column in columns:
        arguments.add(column._jc)  # noqa: SLF001
    function = getattr(companion(spark, "deadletter.DeadLetterApi"), name)
    return ClassicColumn(function(rules, arguments))


def upserts(rows: DataFrame, spec: str) -> DataStreamWriter:
    """Return a write of rows and their versions to a database; the spec contains no secrets."""
    writer = rows.writeStream.outputMode("update")
    java = companion(rows.sparkSession, "connectors.upsert.UpsertWriter")(spec)
    writer._jwrite.foreach(java)  # noqa: SLF001  (PySpark's foreach accepts only Python)
    return writer


def acknowledged(rows: DataFrame, pipeline: str) -> DataStreamWriter:
    """Return a write that only counts rows: a Python sink has written them already."""
    writer = rows.writeStream.outputMode("update")
    java = companion(rows.sparkSession, "connectors.python.AcknowledgedRows")(pipeline)
    writer._jwrite.foreach(java)  # noqa: SLF001  (PySpark's foreach accepts only Python)
    return writer


def row_number(spark: SparkSession, source: Column) -> Column:
    """Return the number of each row among the consecutive rows of its record."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(companion(spark, "python.PythonApi").rowNumber(source._jc))  # noqa: SLF001


def row_by_row(df: DataFrame) -> bool:
    """Return whether each row is processed before the next: nothing buffers or sorts rows."""
    return bool(companion(df.sparkSession, "spark.PlanShape").rowByRow(df._jdf))  # noqa: SLF001


def keeps_records_together(df: DataFrame) -> bool:
    """Return whether the rows of a record stay together, so that their numbers are unique."""
    return bool(companion(df.sparkSession, "spark.PlanShape").keepsRecordsTogether(df._jdf))  # noqa: SLF001


def supported_commits(df: DataFrame) -> str:
    """Return the kind of mid-epoch commit that a real-time query over these rows supports.

    Returns:
        ``rows`` if each row is processed before the next is read, ``pause`` if the sources pause
        for a moment, ``state`` if the pause also writes the state; empty for none.
    """
    return str(companion(df.sparkSession, "CommitApi").supported(df._jdf))  # noqa: SLF001


def uses_processing_time(df: DataFrame) -> bool:
    """Return whether a query has processing-time timers or TTL."""
    internals = companion(df.sparkSession, "spark.SparkInternals")
    return bool(internals.usesProcessingTime(df._jdf))  # noqa: SLF001
