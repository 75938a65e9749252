"""Two streams, joined by key and nearness in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from eagre.config import interval_ms
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.operators.plan import (
    ROW,
    TIMES,
    Timed,
    key_names,
    own_columns,
    put,
    quoted,
    require_apart,
)
from eagre.sources import SOURCE

if TYPE_CHECKING:
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
    """Join the rows of two streams that have one key and are near in event time.

    A pair is given as soon as its second row is there. With ``how="left"`` or ``"full"`` a row that
    nothing was found for is given alone, with nulls, when nothing more can come: its key's event
    time is past the interval and the grace, or, by the wall clock, both are over since it came,
    also where no rows come at all.

    >>> both = interval_join(orders, payments, "order", within="10 minutes")  # doctest: +SKIP
    >>> late = interval_join(  # a payment up to 10 minutes after its order, and none before
    ...     orders, payments, "order", within=("0 s", "10 minutes"), how="left"
    ... )  # doctest: +SKIP

    Args:
        left: The rows of one stream.
        right: Those of another; of another topic, for real time reads none twice.
        on: The columns of the key, in both. Other columns must not have the same name.
        within: How far apart in time two rows may be; or how far before and how far after the left
            one the right one may be.
        how: ``inner``, ``left`` or ``full``.
        grace: How much older than its key's newest a row may be; if not given, the longer of the
            watermarks' delays, or 10 seconds. One that is older is late: it is dropped and counted.
        event_time: The timestamp column of both, or of each; if not given the watermark's, else the
            record's time.

    Returns:
        The key, the columns of the left, those of the right, and the ``_source`` of the row that
        came second, or was given alone.

    Raises:
        SettingsError: A column is unknown or in both, or there is no event time.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, IntegerType

    if how not in get_args(How):
        raise SettingsError("HOW_UNKNOWN", f"how must be inner, left or full, not {how!r}.")
    names = key_names(left, on, "interval_join")
    key_names(right, names, "interval_join")
    require_apart("interval_join", left, right, names)
    times = (event_time, event_time) if isinstance(event_time, str | None) else event_time
    sides = Timed.of(left, times[0]), Timed.of(right, times[1])
    before, after = (within, within) if isinstance(within, str) else within
    spec = {
        "side": len(names) + len(TIMES),
        "before": interval_ms(before) * 1000,
        "after": interval_ms(after) * 1000,
        "grace": max(side.grace_ms(grace) for side in sides) * 1000,
        "left": how in ("left", "full"),
        "right": how == "full",
    }
    rows = _side(sides[0], names, 0).union(_side(sides[1], names, 1))
    results = sides[0].schema(names).add(LEFT, BinaryType()).add(RIGHT, BinaryType())
    results.add(SIDE, IntegerType())
    made = put("interval_join", rows, len(names), spec, results, tick=how != "inner")
    made = made.withColumns({LEFT: _unpacked(sides[0], LEFT), RIGHT: _unpacked(sides[1], RIGHT)})
    columns: list[Column] = [
        *(F.col(quoted(name)) for name in names),
        *(F.col(f"{LEFT}.{quoted(name)}") for name in own_columns(left, names)),
        *(F.col(f"{RIGHT}.{quoted(name)}") for name in own_columns(right, names)),
    ]
    if all(SOURCE in df.columns for df in (left, right)):
        second = F.when(F.col(SIDE) == 0, F.col(f"{LEFT}.{SOURCE}"))
        columns.append(second.otherwise(F.col(f"{RIGHT}.{SOURCE}")).alias(SOURCE))
    return made.select(*columns)


def _side(timed: Timed, names: list[str], number: int) -> DataFrame:
    from pyspark.sql import functions as F

    side = F.lit(number).alias(SIDE)
    row = timed.packed(timed.df.columns).alias(ROW)
    return timed.df.select(*map(quoted, names), *timed.columns, side, row)


def _unpacked(timed: Timed, column: str) -> Column:
    from pyspark.sql import functions as F

    kind: StructType = timed.schema(timed.df.columns)
    return gateway.unpacked(timed.df.sparkSession, F.col(column), kind.json())
