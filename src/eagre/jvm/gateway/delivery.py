"""Exactly once: provenance of results, scans of the output, the lock of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.errors import SettingsError
from eagre.jvm.gateway.handshake import companion

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession


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
class OffsetRange:
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
    spark: SparkSession, scanned: OffsetRange, pipeline: str, fenced: int, committed: str, rule: str
) -> Any:  # noqa: ANN401  (a py4j object)
    """Collect the identities of the results in an offset range of the output."""
    session = spark._jsparkSession  # noqa: SLF001
    offsets = (scanned.settings, scanned.starts, scanned.ends)
    return companion(spark, "delivery.DeliveryApi").scan(
        session, *offsets, pipeline, fenced, committed, rule
    )


def scan_dead_letters(
    spark: SparkSession, scanned: OffsetRange, pipeline: str, committed: str
) -> str:
    """Collect the dead letters in an offset range; ``EarlierDeadLetters.java`` reads the result."""
    offsets = (scanned.settings, scanned.starts, scanned.ends)
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
