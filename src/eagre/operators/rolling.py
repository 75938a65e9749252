"""Each row with what its key did in the last minute, hour and so on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.operators.aggregates import Aggregate, bound, require_own_names
from eagre.operators.plan import ROW, TIMES, Timed, key_names, positive_ms, put, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

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

    A window of an hour is made of 60 slices of a minute. It ends with the slice that the row's time
    is in, and counts the rows that came before the row, and the row itself.

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
        keys: The columns of the key.
        windows: What to compute over which time: ``count``, ``count(x)``, ``sum(x)``, ``avg(x)``,
            ``min(x)``, ``max(x)``, and ``distinct(x)``, which is exact up to 255 different values
            and then within about 6 %. ``x`` is any SQL expression; ``as name`` names the result.
        slices: Of how many slices a window is made.
        grace: How much older than its key's newest a row may be; if not given, the watermark's
            delay, or 10 seconds. A later one passes with nulls, is not counted in, and is counted
            as late.
        event_time: The timestamp column; if not given the watermark's, else the record's time.

    Returns:
        The rows with the results added.

    Raises:
        SettingsError: A column is unknown, or an aggregate malformed.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StructType

    names = key_names(df, keys, "rolling")
    timed = Timed.of(df, event_time)
    grace_ms = timed.grace_ms(grace)
    aggregates = {w: [Aggregate.read(text, _suffix(w)) for text in windows[w]] for w in windows}
    wanted = [one for some in aggregates.values() for one in some]
    if not wanted:
        raise SettingsError("AGGREGATE_MISSING", "rolling needs at least one aggregate.")
    require_own_names("rolling", df.columns, wanted)
    given = [bound(df, one) for one in wanted]
    before = len(names) + len(TIMES)
    told = [one.told(before + place) for place, one in enumerate(given)]
    spec_windows = []
    for window, some in aggregates.items():
        mine, told = told[: len(some)], told[len(some) :]
        spec_windows.append({**_sliced(window, slices), "aggregates": mine})
    arguments = [one.column.alias(f"_{place}") for place, one in enumerate(given)]
    row = timed.packed(df.columns).alias(ROW)
    rows = df.select(*map(quoted, names), *timed.columns, *arguments, row)
    longest = max(positive_ms("rolling", "a window", window) for window in windows)
    spec = {
        "windows": spec_windows,
        "grace": grace_ms * 1000,
        "keeps_ms": longest + grace_ms,
    }
    results = StructType().add(ROW, BinaryType())
    for one in given:
        results.add(one.aggregate.name, one.result)
    made = put("rolling", rows, len(names), spec, results)
    whole = gateway.unpacked(df.sparkSession, F.col(ROW), df.schema.json())
    added = [quoted(one.name) for one in wanted]
    return made.select(whole.alias(ROW), *added).select(f"{ROW}.*", *added)


def _suffix(window: str) -> str:
    return re.sub(r"\W+", "_", window.strip())


def _sliced(window: str, slices: int) -> dict[str, int]:
    """Cut a window into slices of whole microseconds."""
    length = positive_ms("rolling", "a window", window) * 1000
    if slices < 1 or length % slices:
        raise SettingsError(
            "SLICES",
            f"a window of {window} cannot be cut into {slices} slices of whole microseconds.",
            hint="use a number of slices that divides it, such as 60.",
        )
    return {"slice": length // slices, "slices": slices}
