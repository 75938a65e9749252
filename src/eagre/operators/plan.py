"""What the operators share: event time, keys, and the plan around the companion's processors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.config import interval_ms
from eagre.error_policy import pipeline_context
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.sources import SOURCE, WATERMARK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    Keys = str | Sequence[str]

AT, WRITTEN, STREAM, OFFSET, ROW = "_at", "_written", "_stream", "_offset", "_row"

TIMES = (AT, WRITTEN, STREAM, OFFSET)
"""The columns that stand behind the key's."""

GRACE = "10 seconds"
"""How late a row may be where neither the operator nor a watermark says it."""

TICK_MS = 50
"""How often a partition without rows looks at its timers: how late a timer may be."""


@dataclass(frozen=True)
class Timed:
    """Rows with their event time.

    Attributes:
        df: The rows.
        event_time: The column that their time is in; their record's time if not given.
    """

    df: DataFrame
    event_time: str | None

    @classmethod
    def of(cls, df: DataFrame, event_time: str | None) -> Timed:
        """Find the event time: the one named, the watermark's, or the record's.

        Raises:
            SettingsError: There is none.
        """
        marked = [field.name for field in df.schema if WATERMARK in (field.metadata or {})]
        found = event_time or next(iter(marked), None)
        if found is None and SOURCE not in df.columns:
            raise SettingsError(
                "EVENT_TIME_MISSING",
                f"the rows have no event time: no watermark, and no column {SOURCE}.",
                hint="name a timestamp column: event_time='at'.",
            )
        if found is not None:
            _require_timestamp(df, found)
        return cls(df, found)

    @property
    def time(self) -> Column:
        """The event time as a column."""
        from pyspark.sql import functions as F

        return F.col(quoted(self.event_time)) if self.event_time else F.col(f"{SOURCE}.timestamp")

    @property
    def columns(self) -> list[Column]:
        """Event time in microseconds, and the record: its time in milliseconds, and its place."""
        from pyspark.sql import functions as F

        known = SOURCE in self.df.columns
        nothing = F.lit(None).cast("long")
        record = [
            F.unix_millis(f"{SOURCE}.timestamp") if known else nothing,
            F.xxhash64(f"{SOURCE}.topic", f"{SOURCE}.partition") if known else nothing,
            F.col(f"{SOURCE}.offset").cast("long") if known else nothing,
        ]
        values = [F.unix_micros(self.time.cast("timestamp")), *record]
        return [value.alias(name) for value, name in zip(values, TIMES, strict=True)]

    def grace_ms(self, grace: str | None) -> int:
        """How late a row may be: as stated, by the watermark, or the default."""
        if grace is not None:
            return interval_ms(grace)
        if self.event_time:
            metadata = self.df.schema[self.event_time].metadata or {}
            if WATERMARK in metadata:
                return int(metadata[WATERMARK])
        return interval_ms(GRACE)

    def packed(self, names: Sequence[str]) -> Column:
        """Give columns of the rows as bytes."""
        from pyspark.sql import functions as F

        struct = F.struct(*(F.col(quoted(name)) for name in names))
        return gateway.packed(self.df.sparkSession, struct, self.schema(names).json())

    def origin(self, keys: Sequence[str]) -> list[str]:
        """The columns to carry for results that are no rows: the origin; a key where it is not."""
        return [SOURCE] if SOURCE in self.df.columns else list(keys)

    def with_provenance(self, made: DataFrame, keys: Sequence[str], *columns: str) -> DataFrame:
        """Give results with the origin that they carry, where there is one."""
        from pyspark.sql import functions as F

        if SOURCE not in self.df.columns:
            return made.select(*columns)
        kind = self.schema(self.origin(keys)).json()
        carried = gateway.unpacked(self.df.sparkSession, F.col(ROW), kind)
        return made.withColumn(ROW, carried).select(*columns, f"{ROW}.{SOURCE}")

    def schema(self, names: Sequence[str]) -> StructType:
        """Give the types of columns."""
        from pyspark.sql.types import StructType

        return StructType([self.df.schema[name] for name in names])


def _require_timestamp(df: DataFrame, name: str) -> None:
    if name not in df.columns:
        raise SettingsError(
            "COLUMN_UNKNOWN",
            f"the event time {name!r} is not among the columns {', '.join(df.columns)}.",
        )
    kind = df.schema[name].dataType.typeName()
    if not kind.startswith("timestamp"):
        raise SettingsError(
            "EVENT_TIME_TYPE",
            f"the event time {name!r} must be a timestamp, not {kind}.",
            hint=f"convert it first: F.timestamp_millis({name!r}).",
        )


def quoted(name: str) -> str:
    """Give a name as Spark takes it whatever it holds.

    >>> quoted("a.b")
    '`a.b`'
    """
    return f"`{name.replace('`', '``')}`"


def key_names(df: DataFrame, keys: Keys, operator: str, *own: str) -> list[str]:
    """Give the key's columns; the operator's own results have other names.

    Raises:
        SettingsError: There are none, not in the rows, or they have the name of a result.
    """
    names = [keys] if isinstance(keys, str) else list(keys)
    unknown = [name for name in names if name not in df.columns]
    if not names or unknown:
        raise SettingsError(
            "COLUMN_UNKNOWN",
            f"the keys of {operator} must be among the columns {', '.join(df.columns)}; "
            f"it got {', '.join(map(repr, unknown)) or 'none'}.",
        )
    taken = [name for name in names if name in own]
    if taken:
        raise SettingsError(
            "RESULT_NAMED_TWICE",
            f"{operator} has a result {taken[0]!r}, and so is a key called.",
            hint=f'rename the key: df.withColumnRenamed("{taken[0]}", "the_{taken[0]}").',
        )
    return names


def positive_ms(operator: str, name: str, interval: str) -> int:
    """Read an interval that must be longer than nothing.

    Raises:
        SettingsError: It is not.
    """
    length = interval_ms(interval)
    if length <= 0:
        raise SettingsError(
            "INTERVAL_EMPTY", f"{name} of {operator} must be longer than nothing, not {interval!r}."
        )
    return length


def own_columns(df: DataFrame, names: Sequence[str]) -> list[str]:
    """The columns that are neither key nor origin."""
    return [name for name in df.columns if name not in (*names, SOURCE)]


def require_apart(operator: str, left: DataFrame, right: DataFrame, names: Sequence[str]) -> None:
    """Refuse two sides with a column of one name, keys of two types, or state before their union.

    Raises:
        SettingsError: It is so.
    """
    mine = {name.lower() for name in own_columns(left, names)}
    both = [name for name in own_columns(right, names) if name.lower() in mine]
    if both:
        raise SettingsError(
            "COLUMN_IN_BOTH",
            f"both sides of {operator} have a column {', '.join(map(repr, both))}.",
            hint=f'rename it on one side: right.withColumnRenamed("{both[0]}", "other_{both[0]}").',
        )
    for name in names:
        if left.schema[name].dataType != right.schema[name].dataType:
            raise SettingsError(
                "KEY_TYPES",
                f"the key {name!r} is {left.schema[name].dataType.simpleString()} on the left and "
                f"{right.schema[name].dataType.simpleString()} on the right.",
                hint="cast one of them.",
            )
    before = [part for side in (left, right) for part in gateway.stateful_parts(side)]
    if before:
        raise SettingsError(
            "STATE_BEFORE_UNION",
            f"{operator} unites two streams, and one of them comes from {before[0]}; Spark allows "
            "no state before a union.",
            hint=f"put {operator} first, or a topic between two pipelines.",
        )


def window_of(start: str, length_us: int | None = None, end: str | None = None) -> Column:
    """Give a window as Spark has it, from its bounds in microseconds."""
    from pyspark.sql import functions as F

    last = F.col(end) if end else F.col(start) + F.lit(length_us)
    return F.struct(
        F.timestamp_micros(F.col(start)).alias("start"), F.timestamp_micros(last).alias("end")
    )


def _require_single_results(operator: str, rows: DataFrame) -> None:
    for part in gateway.stateful_parts(rows):
        if part.endswith(":updates") or part == "Aggregate":
            name = part.removesuffix(":updates")
            raise SettingsError(
                "STATE_AFTER_UPDATES",
                f"{name} gives a result anew with each change, and {operator} behind it would "
                "count each version.",
                hint='take emit="final" where there is one, or put a topic between two pipelines.',
            )


def put(
    operator: str,
    rows: DataFrame,
    keys: int,
    spec: Mapping[str, Any],
    results: StructType,
    *,
    tick: bool = False,
) -> DataFrame:
    """Put an operator over rows: the key's columns first, its own, and one that is never null."""
    _require_single_results(operator, rows)
    told = {
        **spec,
        "operator": operator,
        "pipeline": pipeline_context().pipeline,
        "tick_ms": TICK_MS if tick else 0,
    }
    return gateway.operator(rows, operator, keys, json.dumps(told), results.json())
