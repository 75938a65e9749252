"""The workloads in PySpark: the same functions for Eagre and for Spark alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from semantics import (
    HIGH_AMOUNT,
    LEAST_AMOUNT,
    MIDDLE_AMOUNT,
    ROLL_EVERY_MS,
    ROLL_MS,
    TUMBLE_MS,
    risk,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FIELD = "event_id STRING, event_time BIGINT, payload STRING"
PAYMENTS = "id STRING, event_time BIGINT, card STRING, merchant STRING, amount BIGINT"
MERCHANTS = "merchant STRING, category STRING, country STRING"
LATENESS = "10 seconds"


def schema(workload: str) -> str:
    """The schema of its events."""
    return FIELD if workload == "field" else PAYMENTS


def field(df: DataFrame) -> DataFrame:
    """Forward."""
    return df.select("event_id", "event_time", "payload")


def stateless(df: DataFrame) -> DataFrame:
    """Filter and project."""
    amount = F.col("amount")
    tier = (
        F.when(amount >= HIGH_AMOUNT, "high")
        .when(amount >= MIDDLE_AMOUNT, "middle")
        .otherwise("low")
    )
    return df.where(amount >= LEAST_AMOUNT).select("id", "card", "amount", tier.alias("tier"))


def count(df: DataFrame) -> DataFrame:
    """Count and sum per card."""
    return df.groupBy("card").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))


def window(df: DataFrame) -> DataFrame:
    """Count and sum per card and tumbling window."""
    return _by_window(df, F.window("at", _ms(TUMBLE_MS)))


def dedup(df: DataFrame) -> DataFrame:
    """Forward once."""
    return df.dropDuplicates(["id"]).select("id", "card", "amount")


def enrich(df: DataFrame, merchants: str) -> DataFrame:
    """Join with the merchants."""
    table = df.sparkSession.read.csv(merchants, schema=MERCHANTS).cache()
    joined = df.join(F.broadcast(table), "merchant")
    return joined.select("id", "card", "amount", "category", "country")


def features(df: DataFrame) -> DataFrame:
    """Rolling features per card."""
    more = [F.min("amount").alias("least"), F.max("amount").alias("largest")]
    return _by_window(df, F.window("at", _ms(ROLL_MS), _ms(ROLL_EVERY_MS)), *more)


def python_map(df: DataFrame) -> DataFrame:
    """Score each payment in Python."""
    score = F.udf(risk, "int")
    return df.select("id", "card", "amount", score("card", "amount").alias("risk"))


def _by_window(df: DataFrame, bounds: Column, *more: Column) -> DataFrame:
    timed = df.withColumn("at", F.timestamp_millis("event_time")).withWatermark("at", LATENESS)
    sums = [F.count("*").alias("n"), F.sum("amount").alias("total"), *more]
    rows = timed.groupBy(bounds.alias("bounds"), "card").agg(*sums)
    return rows.withColumn("start", F.unix_millis("bounds.start")).drop("bounds")


def _ms(length: int) -> str:
    return f"{length} milliseconds"


TRANSFORMS = {
    "field": field,
    "stateless": stateless,
    "count": count,
    "window": window,
    "dedup": dedup,
    "features": features,
    "python-map": python_map,
}
"""The transforms of one argument, by workload."""


def transform(df: DataFrame, workload: str, merchants: str) -> DataFrame:
    """Apply a workload."""
    return enrich(df, merchants) if workload == "enrich" else TRANSFORMS[workload](df)
