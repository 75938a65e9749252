"""Leaderboards: the top N items of each group and window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagre.config import interval_ms
from eagre.errors import SettingsError
from eagre.operators.aggregates import KINDS, Aggregate, bind
from eagre.operators.plan import (
    RETENTION,
    ROW,
    TIMES,
    TimedRows,
    apply_operator,
    key_names,
    positive_ms,
    quoted,
)
from eagre.operators.plan import window_of as _window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from eagre.operators.aggregates import BoundAggregate
    from eagre.operators.plan import Keys

SCORES = ("max", "min", "sum", "count")
RESULTS = ("window", "rank", "score")


def top_n(  # noqa: PLR0913  (the parts of a leaderboard)
    df: DataFrame,
    by: Keys,
    score: str,
    n: int,
    window: str,
    *,
    item: str,
    grace: str | None = None,
    event_time: str | None = None,
    retention: str = RETENTION,
) -> DataFrame:
    """Rank items by their score in each window, and emit the ranks that change.

    Upsert the results by group, window and rank to obtain the current leaderboard. Items with equal
    scores are ranked as text.

    >>> board = top_n(
    ...     scores, by="game", item="player", score="sum(points)", n=100, window="1 hour"
    ... )  # doctest: +SKIP
    >>> board.columns  # doctest: +SKIP
    ['game', 'window', 'rank', 'player', 'score', '_source']

    Args:
        df: The rows.
        by: The columns of the group. Each group has one leaderboard per window.
        score: ``max(x)``, ``sum(x)`` or ``count``, the highest first, or ``min(x)``, the lowest
            first. A column name alone means its maximum. A sum or a count stores the score of
            every item of the open windows; the others store only the items on the leaderboard.
        n: The number of ranks.
        window: The length of a window.
        item: The column to rank: a string or an integer. Null is an item like any other.
        grace: How late a row may be. Default: the watermark's delay, or 10 seconds. A row whose
            window is closed is late: it is dropped and counted.
        event_time: The timestamp column. Default: the watermark's, or else the Kafka timestamp.
        retention: How long after its last row a group's closed windows are remembered. Rows of a
            closed window that arrive in this time are late; later ones open it again. Costs a few
            dozen bytes for each group.

    Returns:
        The group, ``window`` with its start and end, ``rank`` from 1, the item, and ``score``.

    Raises:
        SettingsError: A column is unknown, or the score is malformed.
    """
    names = key_names(df, by, "top_n", *RESULTS)
    kind = _item_type(df, item, names)
    ranked = bind(df, _score(score))
    if n < 1:
        raise SettingsError("RANKS", f"top_n needs at least one rank, not {n}.")
    timed = TimedRows.of(df, event_time)
    length = positive_ms("top_n", "window", window)
    spec = {"n": n, **_times(length, timed.grace_ms(grace), interval_ms(retention))}
    ranks = _ranks(timed, names, item, ranked, spec)
    ranks = ranks.withColumns({"window": _window("_start", length * 1000), item: _typed(kind)})
    columns = [*map(quoted, names), "window", "rank", quoted(item), "score"]
    return timed.with_provenance(ranks, names, *columns)


def _times(length_ms: int, grace_ms: int, retention_ms: int) -> dict[str, int]:
    return {
        "window": length_ms * 1000,
        "grace": grace_ms * 1000,
        "keeps_ms": 2 * (length_ms + grace_ms),
        "retention_ms": retention_ms,
    }


def _ranks(
    timed: TimedRows,
    names: list[str],
    item: str,
    ranked: BoundAggregate,
    spec: Mapping[str, Any],
) -> DataFrame:
    """Return the ranks that change; items are strings in the operator."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType

    place = len(names) + len(TIMES)
    row = timed.packed(timed.provenance(names)).alias(ROW)
    arguments = [F.col(quoted(item)).cast("string").alias("_item"), ranked.column.alias("_score")]
    rows = timed.df.select(*map(quoted, names), *timed.columns, *arguments, row)
    results = timed.schema(names).add("_start", LongType()).add("rank", IntegerType())
    results.add("_item", StringType()).add("score", ranked.result).add(ROW, BinaryType())
    places = {"item": place, "score": [ranked.spec(place + 1)]}
    packed = timed.schema(timed.provenance(names))
    return apply_operator("top_n", rows, len(names), {**places, **spec}, results, packed)


def _typed(kind: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("_item").cast(kind)


def _score(text: str) -> Aggregate:
    alone = text.strip().isidentifier() and text.strip().lower() not in KINDS
    score = Aggregate.read(f"max({text})" if alone else text)
    if score.kind not in SCORES:
        raise SettingsError(
            "SCORE_UNKNOWN", f"a score must be one of {', '.join(SCORES)}, not {text!r}."
        )
    return score


def _item_type(df: DataFrame, item: str, names: list[str]) -> str:
    if item not in df.columns or item in (*names, *RESULTS):
        raise SettingsError(
            "COLUMN_UNKNOWN",
            f"the item of top_n must be one of the columns {', '.join(df.columns)}, not in its "
            f"group, and not called {', '.join(RESULTS)}; it is {item!r}.",
        )
    kind = df.schema[item].dataType.simpleString()
    if kind not in ("string", "tinyint", "smallint", "int", "bigint"):
        raise SettingsError(
            "ITEM_TYPE", f"the item {item!r} must be a string or an integer, not {kind}."
        )
    return kind
