"""Rows with what a table says of them, where the table is a stream of its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from eagre.config import interval_ms
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.operators.plan import AT, ROW, TIMES, Timed, key_names, put, quoted, require_apart
from eagre.sources import SOURCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from eagre.operators.plan import Keys

AsOf = Literal["now", "event-time"]

VALUE = "_value"
FOREVER_MS = 1 << 51
"""Longer than the companion's for ever."""


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
    """Add the columns of a table to each row, where the table is read from a compacted topic.

    >>> @eg.pipeline(source=[bids, profiles], sink=answers)  # doctest: +SKIP
    ... def answer(bids, profiles):
    ...     return eg.lookup(bids, profiles, "user")

    Args:
        df: The rows.
        table: The changes of the table: the newest row of a key replaces those before.
        on: The columns of the key, in both. Other columns must not have the same name.
        as_of: ``now`` takes the key's newest row; ``event-time`` the one that was valid at the
            row's time: the newest that is not younger.
        how: ``left`` gives rows without a match with nulls, ``inner`` leaves them out.
        deleted: An SQL condition over the table's columns: such a row takes its key away.
        wait: How long a row waits for its key to come into the table, by the wall clock: at a first
            start both topics are read at once.
        history: For ``event-time``, how much older than its key's newest a row may be. One that is
            older is late: it is given without a match and counted; such a change is left out. A
            deletion is remembered for as long, and an older change does not undo it.
        ttl: How long after its last change or use a key is kept; for ever if not given, so that the
            state is as large as the table.
        event_time: The timestamp column of both, or of each; if not given the watermark's, else the
            record's time.

    Returns:
        The rows with the table's columns added.

    Raises:
        SettingsError: A column is unknown or in both, or there is no event time.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StructType

    if as_of not in get_args(AsOf) or how not in ("left", "inner"):
        raise SettingsError(
            "LOOKUP_KIND",
            f"a lookup is as of now or event-time, and left or inner, not {as_of!r} and {how!r}.",
        )
    names = key_names(df, on, "lookup")
    key_names(table, names, "lookup")
    require_apart("lookup", df, table, names)
    times = (event_time, event_time) if isinstance(event_time, str | None) else event_time
    timed = Timed.of if as_of == "event-time" else Timed
    rows, changes = timed(df, times[0]), timed(table, times[1])
    never = F.lit(0) == 1
    gone = F.coalesce(F.expr(deleted), never) if deleted else never
    versioned = as_of == "event-time"
    sides = (rows, never), (changes, gone)
    stream, changed = (
        _side(side, names, number, mark, versioned=versioned)
        for number, (side, mark) in enumerate(sides)
    )
    spec = {
        "side": len(names) + len(TIMES),
        "versioned": versioned,
        "inner": how == "inner",
        "history": interval_ms(history) * 1000,
        "waits_ms": interval_ms(wait),
        "keeps_ms": FOREVER_MS if ttl is None else interval_ms(ttl) + interval_ms(wait),
    }
    results = StructType().add(ROW, BinaryType()).add(VALUE, BinaryType())
    made = put(
        "lookup", stream.union(changed), len(names), spec, results, tick=spec["waits_ms"] > 0
    )
    spark = df.sparkSession
    made = made.select(
        gateway.unpacked(spark, F.col(ROW), df.schema.json()).alias(ROW),
        gateway.unpacked(spark, F.col(VALUE), table.schema.json()).alias(VALUE),
    )
    added = [name for name in table.columns if name not in (*names, SOURCE)]
    return made.select(f"{ROW}.*", *(f"{VALUE}.{quoted(name)}" for name in added))


def _side(
    timed: Timed, names: list[str], number: int, gone: Column, *, versioned: bool
) -> DataFrame:
    from pyspark.sql import functions as F

    own = [F.lit(number).alias("_side"), gone.alias("_gone")]
    row = timed.packed(timed.df.columns).alias(ROW)
    at, *record = timed.columns
    times = [at if versioned else F.lit(0).cast("long").alias(AT), *record]
    return timed.df.select(*map(quoted, names), *times, *own, row)
