"""Lookups in a table that is read as a stream of its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from eagre.config import interval_ms
from eagre.connectors import SOURCE
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.operators.plan import (
    AT,
    ROW,
    TIMES,
    TimedRows,
    apply_operator,
    key_names,
    quoted,
    require_joinable,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from eagre.operators.plan import Keys

AsOf = Literal["now", "event-time"]

VALUE = "_value"
FOREVER_MS = 1 << 51
"""Longer than the companion's limit for state that never expires."""


def lookup(  # noqa: PLR0913  (each has a default)
    df: DataFrame,
    table: DataFrame,
    on: Keys,
    *,
    as_of: AsOf = "now",
    how: Literal["left", "inner"] = "left",
    deleted: str | None = None,
    wait: str = "0 ms",
    history: str = "1 hour",
    ttl: str | None = None,
    event_time: str | tuple[str, str] | None = None,
) -> DataFrame:
    """Add the columns of a table to each row; the table is read from a compacted topic.

    >>> @eg.pipeline(source=[bids, profiles], sink=answers)  # doctest: +SKIP
    ... def answer(bids, profiles):
    ...     return eg.lookup(bids, profiles, "user")

    Args:
        df: The rows.
        table: The changes of the table: the newest row of a key replaces older ones.
        on: The key columns, in both streams. Other columns must have different names.
        as_of: ``now`` takes the key's newest row; ``event-time`` takes the row that was valid at
            the event time: the newest one that is not later.
        how: ``left`` emits unmatched rows with nulls, ``inner`` drops them.
        deleted: An SQL condition over the table's columns: a matching row deletes its key.
        wait: How long, in processing time, a row waits for its key to appear in the table: at the
            first start both topics are read concurrently.
        history: For ``event-time``, how much older than its key's newest row a row may be. An older
            row is late: it is emitted without a match and counted. A change that old is used unless
            the key has a newer one that old. For as long, no older change undoes a deletion.
        ttl: How long a key is retained after its last change or use. Default: forever; the state
            is then as large as the table.
        event_time: The timestamp column of both streams, or a pair of columns. Default: the
            watermark's, or else the Kafka timestamp.

    Returns:
        The rows with the table's columns added.

    Raises:
        SettingsError: A column is unknown or in both streams, or there is no event time.
    """
    from pyspark.sql.types import BinaryType, StructType

    _require_kind(as_of, how)
    names = key_names(df, on, "lookup")
    key_names(table, names, "lookup")
    require_joinable("lookup", df, table, names)
    rows = _both_sides(df, table, names, as_of, event_time, deleted)
    spec = {
        "side": len(names) + len(TIMES),
        "versioned": as_of == "event-time",
        "inner": how == "inner",
        **_times(history, wait, ttl),
    }
    results = StructType().add(ROW, BinaryType()).add(VALUE, BinaryType())
    tick, packed = interval_ms(wait) > 0, (df.schema, table.schema)
    matched = apply_operator("lookup", rows, len(names), spec, results, *packed, tick=tick)
    return _unpacked(matched, df, table, names)


def _require_kind(as_of: str, how: str) -> None:
    if as_of not in get_args(AsOf) or how not in ("left", "inner"):
        raise SettingsError(
            "LOOKUP_KIND",
            f"as_of must be now or event-time, and how must be left or inner, not {as_of!r} and "
            f"{how!r}.",
        )


def _times(history: str, wait: str, ttl: str | None) -> dict[str, int]:
    return {
        "history": interval_ms(history) * 1000,
        "waits_ms": interval_ms(wait),
        "keeps_ms": FOREVER_MS if ttl is None else interval_ms(ttl) + interval_ms(wait),
    }


def _both_sides(
    df: DataFrame,
    table: DataFrame,
    names: list[str],
    as_of: AsOf,
    event_time: str | tuple[str, str] | None,
    deleted: str | None,
) -> DataFrame:
    """Return rows and changes as one stream, which says of each what it is."""
    from pyspark.sql import functions as F

    versioned = as_of == "event-time"
    times = (event_time, event_time) if isinstance(event_time, str | None) else event_time
    timed = TimedRows.of if versioned else TimedRows
    never = F.lit(0) == 1
    is_deleted = F.coalesce(F.expr(deleted), never) if deleted else never
    rows = _side(timed(df, times[0]), names, 0, never, versioned=versioned)
    changes = _side(timed(table, times[1]), names, 1, is_deleted, versioned=versioned)
    return rows.union(changes)


def _side(
    timed: TimedRows, names: list[str], number: int, deletion: Column, *, versioned: bool
) -> DataFrame:
    from pyspark.sql import functions as F

    flags = [F.lit(number).alias("_side"), deletion.alias("_gone")]
    row = timed.packed(timed.df.columns).alias(ROW)
    at, *record = timed.columns
    times = [at if versioned else F.lit(0).cast("long").alias(AT), *record]
    return timed.df.select(*map(quoted, names), *times, *flags, row)


def _unpacked(matched: DataFrame, df: DataFrame, table: DataFrame, names: list[str]) -> DataFrame:
    from pyspark.sql import functions as F

    spark = df.sparkSession
    matched = matched.select(
        gateway.unpacked(spark, F.col(ROW), df.schema.json()).alias(ROW),
        gateway.unpacked(spark, F.col(VALUE), table.schema.json()).alias(VALUE),
    )
    added = [name for name in table.columns if name not in (*names, SOURCE)]
    return matched.select(f"{ROW}.*", *(f"{VALUE}.{quoted(name)}" for name in added))
