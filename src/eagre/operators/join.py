"""Interval joins: two streams joined by key and event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from eagre.config import interval_ms
from eagre.connectors import SOURCE
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.operators.plan import (
    ROW,
    TIMES,
    TimedRows,
    apply_operator,
    key_names,
    quoted,
    require_joinable,
    value_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from eagre.operators.plan import Keys

How = Literal["inner", "left", "full"]

SIDE, LEFT, RIGHT = "_side", "_left", "_right"


def interval_join(  # noqa: PLR0913  (each has a default)
    left: DataFrame,
    right: DataFrame,
    on: Keys,
    within: str | tuple[str, str],
    how: How = "inner",
    *,
    grace: str | None = None,
    event_time: str | tuple[str, str] | None = None,
) -> DataFrame:
    """Join the rows of two streams by key and distance in event time.

    A pair is emitted as soon as its second row arrives. With ``how="left"`` or ``"full"``, an
    unmatched row is emitted with nulls when no match can arrive any more: either its key's event
    time has passed the interval and the grace, or that much processing time has passed since the
    row arrived. The latter also applies to an idle stream.

    >>> both = interval_join(orders, payments, "order", within="10 minutes")  # doctest: +SKIP
    >>> paid = interval_join(  # a payment at most 10 minutes after its order
    ...     orders, payments, "order", within=("0 s", "10 minutes"), how="left"
    ... )  # doctest: +SKIP

    Args:
        left: The left stream.
        right: The right stream, from a different topic: real time reads each topic once.
        on: The key columns, in both streams. Other columns must have different names.
        within: The maximum distance in event time between two rows; or a pair: how far before and
            how far after the left row the right row may be. One of the pair can be negative:
            ``("-5 s", "10 s")`` joins right rows between 5 and 10 seconds after the left row.
        how: ``inner``, ``left`` or ``full``.
        grace: How much older than its key's newest row a row may be. Default: the longer of the
            watermarks' delays, or 10 seconds. An older row is late: it is dropped and counted.
        event_time: The timestamp column of both streams, or a pair of columns. Default: the
            watermark's, or else the Kafka timestamp.

    Returns:
        The key, the left columns, the right columns, and the ``_source`` of the row that arrived
        second, or of the unmatched row.

    Raises:
        SettingsError: A column is unknown or in both streams, or the time or interval is invalid.
    """
    if how not in get_args(How):
        raise SettingsError("HOW_UNKNOWN", f"how must be inner, left or full, not {how!r}.")
    interval = _interval(within)
    names = key_names(left, on, "interval_join")
    key_names(right, names, "interval_join")
    require_joinable("interval_join", left, right, names)
    times = (event_time, event_time) if isinstance(event_time, str | None) else event_time
    sides = TimedRows.of(left, times[0]), TimedRows.of(right, times[1])
    spec = {
        "side": len(names) + len(TIMES),
        **interval,
        "grace": max(side.grace_ms(grace) for side in sides) * 1000,
        "left": how in ("left", "full"),
        "right": how == "full",
    }
    return _columns(*sides, names, _joined(*sides, names, spec))


def _interval(within: str | tuple[str, str]) -> dict[str, int]:
    before, after = (within, within) if isinstance(within, str) else within
    bounds = {"before": _signed_ms(before) * 1000, "after": _signed_ms(after) * 1000}
    if sum(bounds.values()) < 0:
        raise SettingsError(
            "INTERVAL_EMPTY",
            f"within of interval_join must end after it begins, not {within!r}.",
            hint='("-5 s", "10 s") joins right rows between 5 and 10 seconds after the left row.',
        )
    return bounds


def _signed_ms(interval: str) -> int:
    magnitude = interval.lstrip()
    if magnitude.startswith("-"):
        return -interval_ms(magnitude.removeprefix("-"))
    return interval_ms(magnitude)


def _joined(
    left: TimedRows, right: TimedRows, names: list[str], spec: Mapping[str, Any]
) -> DataFrame:
    """Return the pairs, each side as a struct, null where a row has no match."""
    from pyspark.sql.types import BinaryType, IntegerType

    rows = _side(left, names, 0).union(_side(right, names, 1))
    results = left.schema(names).add(LEFT, BinaryType()).add(RIGHT, BinaryType())
    results.add(SIDE, IntegerType())
    packed = (left.df.schema, right.df.schema)
    joined = apply_operator(
        "interval_join", rows, len(names), spec, results, *packed, tick=spec["left"]
    )
    return joined.withColumns({LEFT: _unpacked(left, LEFT), RIGHT: _unpacked(right, RIGHT)})


def _columns(left: TimedRows, right: TimedRows, names: list[str], joined: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    columns: list[Column] = [
        *(F.col(quoted(name)) for name in names),
        *(F.col(f"{LEFT}.{quoted(name)}") for name in value_columns(left.df, names)),
        *(F.col(f"{RIGHT}.{quoted(name)}") for name in value_columns(right.df, names)),
    ]
    if all(SOURCE in side.df.columns for side in (left, right)):
        second = F.when(F.col(SIDE) == 0, F.col(f"{LEFT}.{SOURCE}"))
        columns.append(second.otherwise(F.col(f"{RIGHT}.{SOURCE}")).alias(SOURCE))
    return joined.select(*columns)


def _side(timed: TimedRows, names: list[str], number: int) -> DataFrame:
    from pyspark.sql import functions as F

    side = F.lit(number).alias(SIDE)
    row = timed.packed(timed.df.columns).alias(ROW)
    return timed.df.select(*map(quoted, names), *timed.columns, side, row)


def _unpacked(timed: TimedRows, column: str) -> Column:
    from pyspark.sql import functions as F

    kind: StructType = timed.schema(timed.df.columns)
    return gateway.unpacked(timed.df.sparkSession, F.col(column), kind.json())
