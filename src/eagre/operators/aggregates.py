"""The operators' aggregates: ``count``, ``sum(amount)``, ``distinct(country) as n``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

KINDS = ("count", "sum", "avg", "min", "max", "distinct")
INTEGRAL = ("byte", "short", "integer", "long")
REAL = ("float", "double", "decimal")

_FORM = re.compile(
    rf"\s*(?P<kind>{'|'.join(KINDS)})\s*(?:\(\s*(?P<argument>.*?)\s*\))?"
    r"(?:\s+as\s+(?P<name>\w+))?\s*",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate.

    Attributes:
        kind: The aggregate function.
        argument: An SQL expression over the rows; None counts all rows.
        name: The name of the result.
    """

    kind: str
    argument: str | None
    name: str

    @classmethod
    def read(cls, text: str, suffix: str = "") -> Aggregate:
        """Parse an aggregate.

        >>> Aggregate.read("sum(amount)", "1_minute")
        Aggregate(kind='sum', argument='amount', name='sum_amount_1_minute')
        >>> Aggregate.read("count as payments")
        Aggregate(kind='count', argument=None, name='payments')

        Raises:
            SettingsError: The text is malformed.
        """
        match = _FORM.fullmatch(text)
        if not match:
            raise _malformed(text)
        kind, argument = match["kind"].lower(), match["argument"] or None
        if kind == "count" and argument in (None, "*", "1"):
            argument = None
        elif argument is None:
            raise _malformed(text)
        parts = [kind, re.sub(r"\W+", "_", argument or "").strip("_"), suffix]
        return cls(kind, argument, match["name"] or "_".join(filter(None, parts)))


def _malformed(text: str) -> SettingsError:
    return SettingsError(
        "AGGREGATE_MALFORMED",
        f"an aggregate must be count, or one of {', '.join(KINDS)} of a column, not {text!r}.",
        hint='write, for example, "count", "sum(amount)" or "distinct(country) as n".',
    )


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate that is bound to the columns of a DataFrame.

    Attributes:
        aggregate: The aggregate.
        column: Its argument, encoded for the companion: an integer, a double or a hash.
        integral: Whether the argument is an integer.
    """

    aggregate: Aggregate
    column: Column
    integral: bool

    @property
    def result(self) -> DataType:
        """The type of its result."""
        from pyspark.sql.types import DoubleType, LongType

        counts = self.aggregate.kind in ("count", "distinct")
        integral = counts or (self.integral and self.aggregate.kind != "avg")
        return LongType() if integral else DoubleType()

    def spec(self, column: int) -> dict[str, Any]:
        """Return the companion's description; ``column`` is the index of the argument."""
        return {"kind": self.aggregate.kind, "column": column, "whole": self.integral}


def bind(df: DataFrame, aggregate: Aggregate) -> BoundAggregate:
    """Bind an aggregate to the columns of a DataFrame.

    Raises:
        SettingsError: Its argument is invalid or not a number.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as F

    if aggregate.argument is None:
        return BoundAggregate(aggregate, F.lit(1).cast("long"), integral=True)
    value = F.expr(aggregate.argument)
    try:
        kind = df.select(value.alias("value")).schema["value"].dataType.typeName()
    except (AnalysisException, ParseException) as error:
        raise SettingsError(
            "AGGREGATE_ARGUMENT",
            f"{aggregate.kind}({aggregate.argument}) cannot be computed from the columns "
            f"{', '.join(df.columns)}: {str(error).splitlines()[0]}",
        ) from None
    if aggregate.kind == "count":
        return BoundAggregate(aggregate, F.when(value.isNotNull(), 1).cast("long"), integral=True)
    if aggregate.kind == "distinct":
        return BoundAggregate(
            aggregate, F.when(value.isNotNull(), F.xxhash64(value)), integral=True
        )
    if kind not in INTEGRAL and not kind.startswith(REAL):
        raise SettingsError(
            "AGGREGATE_ARGUMENT",
            f"{aggregate.kind}({aggregate.argument}) needs a number, and its argument is {kind}.",
        )
    integral = kind in INTEGRAL
    return BoundAggregate(aggregate, value.cast("long" if integral else "double"), integral)


def bind_all(
    df: DataFrame, operator: str, aggregates: Sequence[str], taken: Iterable[str]
) -> list[BoundAggregate]:
    """Parse aggregates and bind them to the columns of a DataFrame.

    Raises:
        SettingsError: An aggregate is malformed, or its name is already used.
    """
    if isinstance(aggregates, str) or not aggregates:
        raise SettingsError(
            "AGGREGATE_MISSING", f"{operator} needs a list of aggregates, not {aggregates!r}."
        )
    parsed = [Aggregate.read(text) for text in aggregates]
    require_unique_names(operator, taken, parsed)
    return [bind(df, aggregate) for aggregate in parsed]


def require_unique_names(
    operator: str, taken: Iterable[str], aggregates: Sequence[Aggregate]
) -> None:
    """Check that the names of the results and the columns are unique.

    Raises:
        SettingsError: A name occurs twice.
    """
    seen = {name.lower() for name in taken}
    for aggregate in aggregates:
        if aggregate.name.lower() in seen:
            raise SettingsError(
                "RESULT_NAMED_TWICE",
                f"{operator} has more than one column {aggregate.name!r}.",
                hint=f'rename the result: "... as {aggregate.name}_2".',
            )
        seen.add(aggregate.name.lower())
