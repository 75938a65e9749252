"""Rolling aggregates: features of a key over the last minute, hour and so on."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.operators.aggregates import Aggregate, bind, require_unique_names
from eagre.operators.plan import (
    ROW,
    TIMES,
    TimedRows,
    apply_operator,
    key_names,
    positive_ms,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from eagre.operators.aggregates import BoundAggregate
    from eagre.operators.plan import Keys


def rolling(
    df: DataFrame,
    keys: Keys,
    windows: Mapping[str, Sequence[str]],
    *,
    slices: int = 60,
    grace: str | None = None,
    event_time: str | None = None,
) -> DataFrame:
    """Add aggregates over the key's last minute, hour and so on to each row, as of that row.

    A window of one hour consists of 60 slices of one minute. It ends with the slice that contains
    the row's event time, and includes the rows that arrived before the row, and the row itself.

    >>> features = rolling(
    ...     payments,
    ...     "card",
    ...     {
    ...         "1 minute": ["count", "sum(amount)"],
    ...         "1 hour": ["avg(amount) as usual", "distinct(country)"],
    ...     },
    ... )  # doctest: +SKIP
    >>> features.columns[-4:]  # doctest: +SKIP
    ['count_1_minute', 'sum_amount_1_minute', 'usual', 'distinct_country_1_hour']

    Args:
        df: The rows.
        keys: The key columns.
        windows: The aggregates of each window: ``count``, ``count(x)``, ``sum(x)``, ``avg(x)``,
            ``min(x)``, ``max(x)`` and ``distinct(x)``, which is exact up to 255 different values,
            and then accurate to about 6 %. ``x`` is any SQL expression; ``as name`` names the
            result.
        slices: The number of slices of a window.
        grace: How much older than its key's newest row a row may be. Default: the watermark's
            delay, or 10 seconds. An older row is late: it is emitted with nulls, excluded from the
            aggregates, and counted.
        event_time: The timestamp column. Default: the watermark's, or else the Kafka timestamp.

    Returns:
        The rows with the results added.

    Raises:
        SettingsError: A column is unknown, or an aggregate is malformed.
    """
    names = key_names(df, keys, "rolling")
    timed = TimedRows.of(df, event_time)
    grace_ms = timed.grace_ms(grace)
    aggregates = {w: [Aggregate.read(text, _suffix(w)) for text in windows[w]] for w in windows}
    bound = _bound(df, [aggregate for group in aggregates.values() for aggregate in group])
    spec = {
        "windows": _windows(aggregates, bound, slices, len(names) + len(TIMES)),
        "grace": grace_ms * 1000,
        "keeps_ms": max(positive_ms("rolling", "a window", w) for w in windows) + grace_ms,
    }
    return _with_features(timed, names, bound, spec)


def _bound(df: DataFrame, aggregates: Sequence[Aggregate]) -> list[BoundAggregate]:
    if not aggregates:
        raise SettingsError("AGGREGATE_MISSING", "rolling needs at least one aggregate.")
    require_unique_names("rolling", df.columns, aggregates)
    return [bind(df, aggregate) for aggregate in aggregates]


def _windows(
    aggregates: Mapping[str, Sequence[Aggregate]],
    bound: Sequence[BoundAggregate],
    slices: int,
    first: int,
) -> list[dict[str, Any]]:
    """Describe each window with its aggregates, whose arguments begin at column ``first``."""
    specs = iter([aggregate.spec(first + index) for index, aggregate in enumerate(bound)])
    return [
        {**_sliced(window, slices), "aggregates": list(islice(specs, len(group)))}
        for window, group in aggregates.items()
    ]


def _with_features(
    timed: TimedRows,
    names: Sequence[str],
    bound: Sequence[BoundAggregate],
    spec: Mapping[str, Any],
) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StructType

    df = timed.df
    arguments = [aggregate.column.alias(f"_{index}") for index, aggregate in enumerate(bound)]
    row = timed.packed(df.columns).alias(ROW)
    rows = df.select(*map(quoted, names), *timed.columns, *arguments, row)
    results = StructType().add(ROW, BinaryType())
    for aggregate in bound:
        results.add(aggregate.aggregate.name, aggregate.result)
    features = apply_operator("rolling", rows, len(names), spec, results, df.schema)
    unpacked = gateway.unpacked(df.sparkSession, F.col(ROW), df.schema.json())
    added = [quoted(aggregate.aggregate.name) for aggregate in bound]
    return features.select(unpacked.alias(ROW), *added).select(f"{ROW}.*", *added)


def _suffix(window: str) -> str:
    return re.sub(r"\W+", "_", window.strip())


def _sliced(window: str, slices: int) -> dict[str, int]:
    """Divide a window into slices of whole microseconds."""
    length = positive_ms("rolling", "a window", window) * 1000
    if slices < 1 or length % slices:
        raise SettingsError(
            "SLICES",
            f"a window of {window} cannot be divided into {slices} slices of whole microseconds.",
            hint="use a number of slices that divides the window, such as 60.",
        )
    return {"slice": length // slices, "slices": slices}
