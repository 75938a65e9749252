"""Leaderboards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.errors import SettingsError
from eagre.operators.aggregates import KINDS, Aggregate, bound
from eagre.operators.plan import ROW, TIMES, Timed, key_names, positive_ms, put, quoted
from eagre.operators.plan import window_of as _window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eagre.operators.plan import Keys

SCORES = ("max", "min", "sum", "count")
OWN = ("window", "rank", "score")


def top_n(  # noqa: PLR0913  (what a leaderboard is made of)
    df: DataFrame,
    by: Keys,
    score: str,
    n: int,
    window: str,
    *,
    item: str,
    grace: str | None = None,
    event_time: str | None = None,
) -> DataFrame:
    """Rank items by their score in each window, and give the ranks that change.

    Write the results by group, window and rank: what is kept is the leaderboard as it is now. Of
    equal scores the item whose name is first has the better rank.

    >>> board = top_n(
    ...     scores, by="game", item="player", score="sum(points)", n=100, window="1 hour"
    ... )  # doctest: +SKIP
    >>> board.columns  # doctest: +SKIP
    ['game', 'window', 'rank', 'player', 'score', '_source']

    Args:
        df: The rows.
        by: The columns of the group: one leaderboard for each, and for each window.
        score: ``max(x)``, ``sum(x)`` or ``count``, the largest first, or ``min(x)``, the least
            first; a column alone means its largest value. A sum or a count keeps the score of
            every item of the open windows, the others only those on the board.
        n: How many ranks there are.
        window: Its length.
        item: The column that is ranked: a string or a whole number.
        grace: How late a row may be; if not given, the watermark's delay, or 10 seconds. One whose
            window is over is late: it is dropped and counted.
        event_time: The timestamp column; if not given the watermark's, else the record's time.

    Returns:
        The group, ``window`` with its start and end, ``rank`` from 1, the item, and ``score``.

    Raises:
        SettingsError: A column is unknown, or the score malformed.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType

    names = key_names(df, by, "top_n", *OWN)
    kind = _item_type(df, item, names)
    ranked = bound(df, _score(score))
    if n < 1:
        raise SettingsError("RANKS", f"top_n needs at least one rank, not {n}.")
    timed = Timed.of(df, event_time)
    length, grace_ms = positive_ms("top_n", "window", window), timed.grace_ms(grace)
    place = len(names) + len(TIMES)
    row = timed.packed(timed.origin(names)).alias(ROW)
    arguments = [F.col(quoted(item)).cast("string").alias("_item"), ranked.column.alias("_score")]
    rows = df.select(*map(quoted, names), *timed.columns, *arguments, row)
    spec = {
        "item": place,
        "score": [ranked.told(place + 1)],
        "n": n,
        "window": length * 1000,
        "grace": grace_ms * 1000,
        "keeps_ms": 2 * (length + grace_ms),
    }
    results = timed.schema(names).add("_start", LongType()).add("rank", IntegerType())
    results.add("_item", StringType()).add("score", ranked.result).add(ROW, BinaryType())
    made = put("top_n", rows, len(names), spec, results)
    made = made.withColumns(
        {"window": _window("_start", length * 1000), item: F.col("_item").cast(kind)}
    )
    columns = [*map(quoted, names), "window", "rank", quoted(item), "score"]
    return timed.with_provenance(made, names, *columns)


def _score(text: str) -> Aggregate:
    alone = text.strip().isidentifier() and text.strip().lower() not in KINDS
    score = Aggregate.read(f"max({text})" if alone else text)
    if score.kind not in SCORES:
        raise SettingsError(
            "SCORE_UNKNOWN", f"a score must be one of {', '.join(SCORES)}, not {text!r}."
        )
    return score


def _item_type(df: DataFrame, item: str, names: list[str]) -> str:
    if item not in df.columns or item in (*names, *OWN):
        raise SettingsError(
            "COLUMN_UNKNOWN",
            f"the item of top_n must be one of the columns {', '.join(df.columns)}, not of its "
            f"group nor called {', '.join(OWN)}; it is {item!r}.",
        )
    kind = df.schema[item].dataType.simpleString()
    if kind not in ("string", "tinyint", "smallint", "int", "bigint"):
        raise SettingsError(
            "ITEM_TYPE", f"the item {item!r} must be a string or a whole number, not {kind}."
        )
    return kind
