"""The workloads with one of Eagre's operators each; results must equal the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from semantics import BOARD_MS, RANKS, ROLL_EVERY_MS, ROLL_MS, TUMBLE_MS
from transforms import LATENESS

import eagre as eg

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOTALS = ["count as n", "sum(amount) as total"]
FEATURES = [*TOTALS, "min(amount) as least", "max(amount) as largest"]
COUNTED = ("card", "n", "total")
ENRICHED = ("id", "card", "amount", "category", "country")


def deduplicate(df: DataFrame) -> DataFrame:
    """Forward once."""
    once = eg.deduplicate(_timed(df), "id", "10 minutes", event_time="at")
    return once.select("id", "card", "amount")


def rolling(df: DataFrame) -> DataFrame:
    """Count and sum per card, in a window that holds the whole run."""
    return eg.rolling(_timed(df), "card", {"1 hour": TOTALS}, event_time="at").select(*COUNTED)


def top_n(df: DataFrame) -> DataFrame:
    """The merchants where each card spent most."""
    board = eg.top_n(
        _timed(df),
        by="card",
        item="merchant",
        score="sum(amount)",
        n=RANKS,
        window=f"{BOARD_MS} ms",
        event_time="at",
    )
    start = F.unix_millis("window.start").alias("start")
    return board.select("card", start, "rank", "merchant", F.col("score").alias("spent"))


def session_windows(df: DataFrame) -> DataFrame:
    """Count and sum per card, in one session for the whole run."""
    sessions = eg.session_windows(_timed(df), "card", "10 minutes", TOTALS, event_time="at")
    return sessions.select(*COUNTED)


def window(df: DataFrame) -> DataFrame:
    """Count and sum per card and tumbling window."""
    return _windows(df, TUMBLE_MS, TUMBLE_MS, TOTALS)


def features(df: DataFrame) -> DataFrame:
    """Rolling features per card."""
    return _windows(df, ROLL_MS, ROLL_EVERY_MS, FEATURES)


def interval_join(df: DataFrame, table: DataFrame) -> DataFrame:
    """Join with the merchants, whose records were written up to a day before.

    A payment may be read before its merchant, which must not be late by then.
    """
    within = ("1 day", "0 s")
    return eg.interval_join(df, table, "merchant", within, grace="1 day").select(*ENRICHED)


def lookup(df: DataFrame, table: DataFrame) -> DataFrame:
    """Join with the merchants; payments wait while the table is read."""
    joined = eg.lookup(df, table, "merchant", how="inner", wait="5 seconds")
    return joined.select(*ENRICHED)


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


OPERATORS = {
    ("deduplicate", "dedup"): deduplicate,
    ("rolling", "count"): rolling,
    ("top_n", "top"): top_n,
    ("session_windows", "count"): session_windows,
    ("windows", "window"): window,
    ("windows", "features"): features,
    ("interval_join", "enrich"): interval_join,
    ("lookup", "enrich"): lookup,
}
"""By operator and workload."""

WITH_TABLE = ("interval_join", "lookup")
"""The operators that read the merchants from their topic."""
