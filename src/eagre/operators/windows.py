"""Aggregates over sessions, and over windows of a fixed length that say when they are final."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from eagre.errors import SettingsError
from eagre.operators.aggregates import bound_all
from eagre.operators.plan import ROW, TIMES, Timed, key_names, positive_ms, put, quoted
from eagre.operators.plan import window_of as _window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pyspark.sql import DataFrame

    from eagre.operators.aggregates import Bound
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
) -> DataFrame:
    """Aggregate the rows of a key that follow one another within a gap.

    Sessions are those of Spark's ``session_window``. Each row gives its session as it then is,
    with the status ``open``; a session that another one took in is given once more, as ``merged``
    and without results; and each is given as ``final`` when it is over: its key's event time is
    past its end by more than the grace, or, by the wall clock, nothing came for the gap and the
    grace, also where no rows come at all.

    >>> visits = session_windows(clicks, "user", "30 minutes", ["count"])  # doctest: +SKIP
    >>> visits.columns  # doctest: +SKIP
    ['user', 'session', 'count', 'status', '_source']

    Args:
        df: The rows.
        keys: The columns of the key.
        gap: How far apart two rows of a session may be.
        aggregates: What to compute, as for ``rolling``.
        emit: ``update``, as described, or ``final`` for the final ones only.
        grace: How late a row may be; if not given, the watermark's delay, or 10 seconds. One that
            belongs to a session that is over is late: it is dropped and counted.
        event_time: The timestamp column; if not given the watermark's, else the record's time.

    Returns:
        The key, ``session`` with its start and end, the results, and ``status``.

    Raises:
        SettingsError: A column is unknown, or an aggregate malformed.
    """
    _require_emit("session_windows", emit)
    names = key_names(df, keys, "session_windows", "session", "status")
    given = bound_all(df, "session_windows", aggregates, [*names, "session", "status"])
    timed = Timed.of(df, event_time)
    spec = {
        "gap": positive_ms("session_windows", "gap", gap) * 1000,
        "grace": timed.grace_ms(grace) * 1000,
        "updates": emit == "update",
    }
    made = _put("session_windows", timed, names, given, spec, [START, END], status=True, tick=True)
    made = made.withColumn("session", _window(START, end=END))
    return timed.with_provenance(made, names, *_columns(names, "session", given), "status")


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
) -> DataFrame:
    """Aggregate the rows of a key in windows of a fixed length.

    The windows are those of Spark's ``F.window``. With ``emit="final"`` each is given once, when it
    is over: its key's event time is past its end by more than the grace, or what was left of it and
    the grace are over by the wall clock, also where no rows come at all.

    >>> totals = windows(
    ...     payments, "card", "1 minute", ["sum(amount) as spent"], emit="final"
    ... )  # doctest: +SKIP
    >>> totals.columns  # doctest: +SKIP
    ['card', 'window', 'spent', '_source']

    Args:
        df: The rows.
        keys: The columns of the key.
        window: Its length.
        aggregates: What to compute, as for ``rolling``.
        emit: ``update`` gives a window with each of its rows, ``final`` once.
        slide: How long after one window the next begins; its length if not given.
        grace: How late a row may be; if not given, the watermark's delay, or 10 seconds. One whose
            windows are over is late: it is dropped and counted.
        event_time: The timestamp column; if not given the watermark's, else the record's time.

    Returns:
        The key, ``window`` with its start and end, and the results.

    Raises:
        SettingsError: A column is unknown, or an aggregate malformed.
    """
    _require_emit("windows", emit)
    names = key_names(df, keys, "windows", "window")
    given = bound_all(df, "windows", aggregates, [*names, "window"])
    timed = Timed.of(df, event_time)
    length = positive_ms("windows", "window", window) * 1000
    every = positive_ms("windows", "slide", slide or window) * 1000
    if every > length:
        raise SettingsError(
            "SLIDE_TOO_LONG", f"windows of {window} cannot begin only each {slide}: rows between."
        )
    spec = {
        "window": length,
        "slide": every,
        "grace": timed.grace_ms(grace) * 1000,
        "updates": emit == "update",
    }
    made = _put("windows", timed, names, given, spec, [START], tick=emit == "final")
    made = made.withColumn("window", _window(START, length))
    return timed.with_provenance(made, names, *_columns(names, "window", given))


def _require_emit(operator: str, emit: str) -> None:
    if emit not in get_args(Emit):
        raise SettingsError(
            "EMIT_UNKNOWN", f"emit of {operator} must be update or final, not {emit!r}."
        )


def _columns(names: Sequence[str], window: str, given: Sequence[Bound]) -> list[str]:
    return [*map(quoted, names), window, *(quoted(one.aggregate.name) for one in given)]


def _put(  # noqa: PLR0913  (what both kinds of window are made of)
    operator: str,
    timed: Timed,
    names: Sequence[str],
    given: Sequence[Bound],
    spec: Mapping[str, Any],
    bounds: Sequence[str],
    *,
    status: bool = False,
    tick: bool,
) -> DataFrame:
    from pyspark.sql.types import BinaryType, LongType, StringType

    before = len(names) + len(TIMES)
    told = [one.told(before + place) for place, one in enumerate(given)]
    arguments = [one.column.alias(f"_{place}") for place, one in enumerate(given)]
    row = timed.packed(timed.origin(names)).alias(ROW)
    rows = timed.df.select(*map(quoted, names), *timed.columns, *arguments, row)
    results = timed.schema(names)
    for bound in bounds:
        results.add(bound, LongType())
    for one in given:
        results.add(one.aggregate.name, one.result)
    if status:
        results.add("status", StringType())
    results.add(ROW, BinaryType())
    return put(operator, rows, len(names), {**spec, "aggregates": told}, results, tick=tick)
