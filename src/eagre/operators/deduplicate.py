"""Each row once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.jvm import gateway
from eagre.operators.plan import ROW, Timed, key_names, positive_ms, put, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eagre.operators.plan import Keys


def deduplicate(
    df: DataFrame, keys: Keys, within: str, *, event_time: str | None = None
) -> DataFrame:
    """Drop rows whose key has passed already, no longer than a time before or after by event time.

    Unlike ``dropDuplicates`` its state has an end, and a duplicate may carry another event time
    than the original. A row older than its key's newest by more than ``within`` is late: it is
    dropped and counted.

    >>> once = deduplicate(df, "id", within="10 minutes")  # doctest: +SKIP

    Args:
        df: The rows.
        keys: The columns that tell rows apart.
        within: How far apart two rows of a key may be to count as one.
        event_time: The timestamp column; if not given the watermark's, else the record's time.

    Returns:
        The rows that passed, unchanged.

    Raises:
        SettingsError: A column is unknown, or there is no event time.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StructType

    names = key_names(df, keys, "deduplicate")
    timed = Timed.of(df, event_time)
    length = positive_ms("deduplicate", "within", within)
    row = timed.packed(df.columns).alias(ROW)
    rows = df.select(*map(quoted, names), *timed.columns, row)
    spec = {"within": length * 1000, "keeps_ms": 2 * length}
    made = put("deduplicate", rows, len(names), spec, StructType().add(ROW, BinaryType()))
    whole = gateway.unpacked(df.sparkSession, F.col(ROW), df.schema.json())
    return made.select(whole.alias(ROW)).select(f"{ROW}.*")
