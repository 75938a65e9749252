"""Deduplication with bounded state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.jvm import gateway
from eagre.operators.plan import ROW, TimedRows, apply_operator, key_names, positive_ms, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eagre.operators.plan import Keys


def deduplicate(
    df: DataFrame, keys: Keys, within: str, *, event_time: str | None = None
) -> DataFrame:
    """Drop rows whose key has already occurred within an interval of event time.

    Unlike ``dropDuplicates``, it has bounded state, and a duplicate may have a different event time
    than the original. A row is late if it is older than its key's newest row by more than
    ``within``: it is dropped and counted.

    >>> once = deduplicate(df, "id", within="10 minutes")  # doctest: +SKIP

    Args:
        df: The rows.
        keys: The columns that identify a row.
        within: The maximum distance in event time between a row and its duplicate.
        event_time: The timestamp column. Default: the watermark's, or else the Kafka timestamp.

    Returns:
        The remaining rows, unchanged.

    Raises:
        SettingsError: A column is unknown, or there is no event time.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StructType

    names = key_names(df, keys, "deduplicate")
    timed = TimedRows.of(df, event_time)
    length = positive_ms("deduplicate", "within", within)
    row = timed.packed(df.columns).alias(ROW)
    rows = df.select(*map(quoted, names), *timed.columns, row)
    spec = {"within": length * 1000, "keeps_ms": 2 * length}
    results = StructType().add(ROW, BinaryType())
    unique = apply_operator("deduplicate", rows, len(names), spec, results, df.schema)
    unpacked = gateway.unpacked(df.sparkSession, F.col(ROW), df.schema.json())
    return unique.select(unpacked.alias(ROW)).select(f"{ROW}.*")
