"""The stateful workloads by Eagre's operators: the same results as Spark's aggregations give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from semantics import ROLL_EVERY_MS, ROLL_MS, TUMBLE_MS
from transforms import LATENESS

import eagre as eg

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOTALS = ["count as n", "sum(amount) as total"]
FEATURES = [*TOTALS, "min(amount) as least", "max(amount) as largest"]


def window(df: DataFrame) -> DataFrame:
    """Count and sum per card and tumbling window."""
    return _windows(df, TUMBLE_MS, TUMBLE_MS, TOTALS)


def features(df: DataFrame) -> DataFrame:
    """Rolling features per card."""
    return _windows(df, ROLL_MS, ROLL_EVERY_MS, FEATURES)


def dedup(df: DataFrame) -> DataFrame:
    """Forward once."""
    once = eg.deduplicate(_timed(df), "id", "10 minutes", event_time="at")
    return once.select("id", "card", "amount")


def _windows(df: DataFrame, length: int, slide: int, aggregates: list[str]) -> DataFrame:
    rows = eg.windows(
        _timed(df),
        "card",
        f"{length} ms",
        aggregates,
        slide=f"{slide} ms",
        grace=LATENESS,
        event_time="at",
    )
    return rows.withColumn("start", F.unix_millis("window.start")).drop("window", "_source")


def _timed(df: DataFrame) -> DataFrame:
    return df.withColumn("at", F.timestamp_millis("event_time"))


OPERATORS = {"window": window, "dedup": dedup, "features": features}
"""By workload."""
