"""Aggregates over session windows, and over fixed windows with final results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from eagre.config import interval_ms
from eagre.errors import SettingsError
from eagre.operators.aggregates import bind_all
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
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pyspark.sql import DataFrame

    from eagre.operators.aggregates import BoundAggregate
    from eagre.operators.plan import Keys

Emit = Literal["update", "final"]

START, END = "_start", "_end"


def session_windows(  # noqa: PLR0913  (each has a default)
    df: DataFrame,
    keys: Keys,
    gap: str,
    aggregates: Sequence[str],
    *,
    emit: Emit = "update",
    grace: str | None = None,
    event_time: str | None = None,
    retention: str = RETENTION,
) -> DataFrame:
    """Aggregate the rows of a key in sessions that a gap separates.

    Sessions are the same as those of Spark's ``session_window``. Each row emits the current state
    of its session, with the status ``open``. When two sessions merge, the absorbed one is emitted
    again, as ``merged`` and without results. Each session is emitted as ``final`` when it is over:
    either its key's event time has passed its end by more than the grace, or no row has arrived for
    the gap and the grace in processing time. The latter also applies to an idle stream.

    >>> visits = session_windows(clicks, "user", "30 minutes", ["count"])  # doctest: +SKIP
    >>> visits.columns  # doctest: +SKIP
    ['user', 'session', 'count', 'status', '_source']

    Args:
        df: The rows.
        keys: The key columns.
        gap: The maximum distance in event time between two rows of a session.
        aggregates: The aggregates, as for ``rolling``.
        emit: ``update``, as described, or ``final`` for final results only.
        grace: How late a row may be. Default: the watermark's delay, or 10 seconds. A row is late
            if a session of it alone would be over: it is dropped and counted.
        event_time: The timestamp column. Default: the watermark's, or else the Kafka timestamp.
        retention: How long after its last row a key's closed sessions are remembered. Rows of a
            closed session that arrive in this time are late; later ones open it again. Costs a few
            dozen bytes for each key.

    Returns:
        The key, ``session`` with its start and end, the results, and ``status``.

    Raises:
        SettingsError: A column is unknown, or an aggregate is malformed.
    """
    _require_emit("session_windows", emit)
    names = key_names(df, keys, "session_windows", "session", "status")
    bound = bind_all(df, "session_windows", aggregates, [*names, "session", "status"])
    timed = TimedRows.of(df, event_time)
    spec = {
        "gap": positive_ms("session_windows", "gap", gap) * 1000,
        "grace": timed.grace_ms(grace) * 1000,
        "retention_ms": interval_ms(retention),
        "updates": emit == "update",
    }
    sessions = _aggregate(
        "session_windows", timed, names, bound, spec, [START, END], status=True, tick=True
    )
    sessions = sessions.withColumn("session", _window(START, end=END))
    return timed.with_provenance(sessions, names, *_columns(names, "session", bound), "status")


def windows(  # noqa: PLR0913  (each has a default)
    df: DataFrame,
    keys: Keys,
    window: str,
    aggregates: Sequence[str],
    *,
    emit: Emit = "update",
    slide: str | None = None,
    grace: str | None = None,
    event_time: str | None = None,
    retention: str = RETENTION,
) -> DataFrame:
    """Aggregate the rows of a key in windows of a fixed length.

    The windows are the same as those of Spark's ``F.window``. With ``emit="final"`` each window is
    emitted once, when it is over: either its key's event time has passed its end by more than the
    grace, or the rest of the window and the grace have passed in processing time. The latter also
    applies to an idle stream.

    >>> totals = windows(
    ...     payments, "card", "1 minute", ["sum(amount) as spent"], emit="final"
    ... )  # doctest: +SKIP
    >>> totals.columns  # doctest: +SKIP
    ['card', 'window', 'spent', '_source']

    Args:
        df: The rows.
        keys: The key columns.
        window: The length of a window.
        aggregates: The aggregates, as for ``rolling``.
        emit: ``update`` emits a window with each of its rows, ``final`` emits it once.
        slide: The interval between the starts of two windows. Default: the length of the window.
        grace: How late a row may be. Default: the watermark's delay, or 10 seconds. A row whose
            windows are closed is late: it is dropped and counted.
        event_time: The timestamp column. Default: the watermark's, or else the Kafka timestamp.
        retention: How long after its last row a key's closed windows are remembered. Rows of a
            closed window that arrive in this time are late; later ones open it again. Costs a few
            dozen bytes for each key.

    Returns:
        The key, ``window`` with its start and end, and the results.

    Raises:
        SettingsError: A column is unknown, or an aggregate is malformed.
    """
    _require_emit("windows", emit)
    names = key_names(df, keys, "windows", "window")
    bound = bind_all(df, "windows", aggregates, [*names, "window"])
    timed = TimedRows.of(df, event_time)
    length, every = _lengths(window, slide or window)
    spec = {
        "window": length,
        "slide": every,
        "grace": timed.grace_ms(grace) * 1000,
        "retention_ms": interval_ms(retention),
        "updates": emit == "update",
    }
    results = _aggregate("windows", timed, names, bound, spec, [START], tick=emit == "final")
    results = results.withColumn("window", _window(START, length))
    return timed.with_provenance(results, names, *_columns(names, "window", bound))


def _lengths(window: str, slide: str) -> tuple[int, int]:
    """Return the length of a window and of its slide in microseconds."""
    length = positive_ms("windows", "window", window) * 1000
    every = positive_ms("windows", "slide", slide) * 1000
    if every > length:
        raise SettingsError(
            "SLIDE_TOO_LONG",
            f"the slide of windows must not be longer than the window: {slide} and {window}.",
        )
    return length, every


def _require_emit(operator: str, emit: str) -> None:
    if emit not in get_args(Emit):
        raise SettingsError(
            "EMIT_UNKNOWN", f"emit of {operator} must be update or final, not {emit!r}."
        )


def _columns(names: Sequence[str], window: str, aggregates: Sequence[BoundAggregate]) -> list[str]:
    return [*map(quoted, names), window, *(quoted(bound.aggregate.name) for bound in aggregates)]


def _aggregate(  # noqa: PLR0913  (the parts of both kinds of window)
    operator: str,
    timed: TimedRows,
    names: Sequence[str],
    aggregates: Sequence[BoundAggregate],
    spec: Mapping[str, Any],
    bounds: Sequence[str],
    *,
    status: bool = False,
    tick: bool,
) -> DataFrame:
    from pyspark.sql.types import BinaryType, LongType, StringType

    first = len(names) + len(TIMES)
    specs = [bound.spec(first + index) for index, bound in enumerate(aggregates)]
    arguments = [bound.column.alias(f"_{index}") for index, bound in enumerate(aggregates)]
    row = timed.packed(timed.provenance(names)).alias(ROW)
    rows = timed.df.select(*map(quoted, names), *timed.columns, *arguments, row)
    results = timed.schema(names)
    for name in bounds:
        results.add(name, LongType())
    for bound in aggregates:
        results.add(bound.aggregate.name, bound.result)
    if status:
        results.add("status", StringType())
    results.add(ROW, BinaryType())
    packed = timed.schema(timed.provenance(names))
    return apply_operator(
        operator, rows, len(names), {**spec, "aggregates": specs}, results, packed, tick=tick
    )
