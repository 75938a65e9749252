"""Common parts of the operators: event time, keys, and the call to the companion."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.config import interval_ms, megabytes
from eagre.connectors import SOURCE, WATERMARK
from eagre.errors import SettingsError
from eagre.jvm import gateway

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    Keys = str | Sequence[str]

AT, WRITTEN, STREAM, OFFSET, ROW = "_at", "_written", "_stream", "_offset", "_row"

TIMES = (AT, WRITTEN, STREAM, OFFSET)
"""The columns that follow the key columns."""

GRACE = "10 seconds"
"""How late a row may be, unless the operator or a watermark sets it."""

MAX_AHEAD = "spark.eagre.maxEventTimeAhead"
"""The setting for how far an event time may be ahead of the row's arrival."""

MAX_AHEAD_DEFAULT = "1 day"

MAX_STATE = "spark.eagre.maxStatePerKey"
"""The setting for how many bytes of rows a join or a look-up holds for a key."""

MAX_STATE_DEFAULT = "4m"

RETENTION = "1 hour"
"""How long closed windows of an idle key are remembered, unless the operator sets it."""

TICK_MS = 50
"""How often an idle partition checks its timers: the maximum delay of a timer."""


@dataclass(frozen=True)
class TimedRows:
    """Rows with their event time.

    Attributes:
        df: The rows.
        event_time: The event time column; None for the Kafka timestamp.
    """

    df: DataFrame
    event_time: str | None

    @classmethod
    def of(cls, df: DataFrame, event_time: str | None) -> TimedRows:
        """Choose the event time: the named column, the watermark's, or the Kafka timestamp.

        Raises:
            SettingsError: There is none.
        """
        watermarks = [field.name for field in df.schema if WATERMARK in (field.metadata or {})]
        column = event_time or next(iter(watermarks), None)
        if column is None and SOURCE not in df.columns:
            raise SettingsError(
                "EVENT_TIME_MISSING",
                f"the rows have no event time: neither a watermark nor the column {SOURCE}.",
                hint="name a timestamp column: event_time='at'.",
            )
        if column is not None:
            _require_timestamp(df, column)
        return cls(df, column)

    @property
    def time(self) -> Column:
        """The event time as a column."""
        from pyspark.sql import functions as F

        return F.col(quoted(self.event_time)) if self.event_time else F.col(f"{SOURCE}.timestamp")

    @property
    def columns(self) -> list[Column]:
        """Event time in microseconds; the record's timestamp in milliseconds, and its position."""
        from pyspark.sql import functions as F

        has_source = SOURCE in self.df.columns
        null = F.lit(None).cast("long")
        record = [
            F.unix_millis(f"{SOURCE}.timestamp") if has_source else null,
            F.xxhash64(f"{SOURCE}.topic", f"{SOURCE}.partition") if has_source else null,
            F.col(f"{SOURCE}.offset").cast("long") if has_source else null,
        ]
        values = [F.unix_micros(self.time.cast("timestamp")), *record]
        return [value.alias(name) for value, name in zip(values, TIMES, strict=True)]

    def grace_ms(self, grace: str | None) -> int:
        """Return how late a row may be: the argument, the watermark's delay, or the default."""
        if grace is not None:
            return interval_ms(grace)
        if self.event_time:
            metadata = self.df.schema[self.event_time].metadata or {}
            if WATERMARK in metadata:
                return int(metadata[WATERMARK])
        return interval_ms(GRACE)

    def packed(self, names: Sequence[str]) -> Column:
        """Return columns of the rows, packed into bytes."""
        from pyspark.sql import functions as F

        struct = F.struct(*(F.col(quoted(name)) for name in names))
        return gateway.packed(self.df.sparkSession, struct, self.schema(names).json())

    def provenance(self, keys: Sequence[str]) -> list[str]:
        """Return the columns that computed results carry: ``_source``, or else the key."""
        return [SOURCE] if SOURCE in self.df.columns else list(keys)

    def with_provenance(self, results: DataFrame, keys: Sequence[str], *columns: str) -> DataFrame:
        """Return results with their provenance, if they carry it."""
        from pyspark.sql import functions as F

        if SOURCE not in self.df.columns:
            return results.select(*columns)
        kind = self.schema(self.provenance(keys)).json()
        carried = gateway.unpacked(self.df.sparkSession, F.col(ROW), kind)
        return results.withColumn(ROW, carried).select(*columns, f"{ROW}.{SOURCE}")

    def schema(self, names: Sequence[str]) -> StructType:
        """Return the schema of columns."""
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
    """Quote a column name for Spark.

    >>> quoted("a.b")
    '`a.b`'
    """
    return f"`{name.replace('`', '``')}`"


def key_names(df: DataFrame, keys: Keys, operator: str, *reserved: str) -> list[str]:
    """Return the key columns, and check that they differ from the operator's results.

    Raises:
        SettingsError: There are none, one is unknown or an array, or has the name of a result.
    """
    names = [keys] if isinstance(keys, str) else list(keys)
    unknown = [name for name in names if name not in df.columns]
    if not names or unknown:
        raise SettingsError(
            "COLUMN_UNKNOWN",
            f"the keys of {operator} must be among the columns {', '.join(df.columns)}; "
            f"it got {', '.join(map(repr, unknown)) or 'none'}.",
        )
    arrays = [name for name in names if "array<" in df.schema[name].dataType.simpleString()]
    if arrays:
        raise SettingsError(
            "KEY_ARRAY",
            f"the key {arrays[0]!r} of {operator} has an array, and Spark no timers for such keys.",
            hint=f"convert it first: F.to_json({arrays[0]!r}).",
        )
    taken = [name for name in names if name in reserved]
    if taken:
        raise SettingsError(
            "RESULT_NAMED_TWICE",
            f"{operator} uses the name {taken[0]!r} for a key and for a result.",
            hint=f'rename the key: df.withColumnRenamed("{taken[0]}", "the_{taken[0]}").',
        )
    return names


def positive_ms(operator: str, name: str, interval: str) -> int:
    """Parse an interval that must be positive.

    Raises:
        SettingsError: The interval is zero.
    """
    length = interval_ms(interval)
    if length <= 0:
        raise SettingsError(
            "INTERVAL_EMPTY", f"{name} of {operator} must be longer than zero, not {interval!r}."
        )
    return length


def value_columns(df: DataFrame, names: Sequence[str]) -> list[str]:
    """Return the columns that are neither key nor provenance."""
    return [name for name in df.columns if name not in (*names, SOURCE)]


def require_joinable(
    operator: str, left: DataFrame, right: DataFrame, names: Sequence[str]
) -> None:
    """Check that two streams can be joined.

    Raises:
        SettingsError: They have a column in common, their key types differ, or one is static or has
            state.
    """
    left_names = {name.lower() for name in value_columns(left, names)}
    both = [name for name in value_columns(right, names) if name.lower() in left_names]
    if both:
        raise SettingsError(
            "COLUMN_IN_BOTH",
            f"both sides of {operator} have the column {', '.join(map(repr, both))}.",
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
    require_stream(operator, left, right)
    before = [part for side in (left, right) for part in gateway.stateful_parts(side)]
    if before:
        raise SettingsError(
            "STATE_BEFORE_UNION",
            f"{operator} contains a union, and one of its streams comes from {before[0]}; Spark "
            "supports no stateful operator before a union.",
            hint=f"put {operator} first, or split the query into two pipelines with a topic "
            "between them.",
        )


def window_of(start: str, length_us: int | None = None, end: str | None = None) -> Column:
    """Return a window struct like Spark's, from its bounds in microseconds."""
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
                f"{name} emits a result again with each change, and {operator} after it would "
                "count each version.",
                hint='use emit="final" if available, or split the query into two pipelines with a '
                "topic between them.",
            )


def require_stream(operator: str, *sides: DataFrame) -> None:
    """Check that the rows of an operator are a stream.

    Raises:
        SettingsError: They are static.
    """
    if not all(side.isStreaming for side in sides):
        raise SettingsError(
            "ROWS_STATIC",
            f"{operator} needs a stream, and its rows are static. They have no order of arrival, "
            "and nothing would end the last window or a wait.",
            hint="in a batch use Spark's own groupBy, join or dropDuplicates; join a stream with a "
            "static table by df.join(F.broadcast(table), ...).",
        )


def _setting(rows: DataFrame, name: str, default: str) -> str:
    return rows.sparkSession.conf.get(name, default) or default


def apply_operator(
    operator: str,
    rows: DataFrame,
    keys: int,
    spec: Mapping[str, Any],
    results: StructType,
    *packed: StructType,
    tick: bool = False,
) -> DataFrame:
    """Apply an operator to rows: first the key columns, then its arguments, then the packed row.

    ``packed`` are the schemas of the packed row, one for each side of a join.
    """
    require_stream(operator, rows)
    _require_single_results(operator, rows)
    full_spec = {
        **spec,
        "operator": operator,
        "tick_ms": TICK_MS if tick else 0,
        "ahead_ms": interval_ms(_setting(rows, MAX_AHEAD, MAX_AHEAD_DEFAULT)),
        "max_bytes": megabytes(_setting(rows, MAX_STATE, MAX_STATE_DEFAULT)) << 20,
        "packed": [schema.jsonValue() for schema in packed],
    }
    return gateway.operator(rows, operator, keys, json.dumps(full_spec), results.json())
