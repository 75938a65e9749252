"""The Python workloads over Eagre's bridge; beside them the same map in lists and in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from semantics import risk

import eagre as eg

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VARIANTS = ("bridge", "batch", "sql")


def python_map(df: DataFrame, variant: str) -> DataFrame:
    """Score each payment: a function of a row, a function of lists, or SQL."""
    scored = {"bridge": by_row, "batch": by_list, "sql": in_sql}[variant]()
    return df.select("id", "card", "amount", scored.alias("risk"))


def by_row() -> Column:
    """Ask Python for each payment."""
    return eg.udf(risk, "int")("card", "amount")  # type: ignore[no-any-return]


def by_list() -> Column:
    """Ask Python for the payments that are there."""
    scored = eg.batch_udf(lambda cards, amounts: list(map(risk, cards, amounts)), "int")
    return scored("card", "amount")  # type: ignore[no-any-return]


def in_sql() -> Column:
    """Compute the same without Python."""
    digits = F.aggregate(
        F.transform(F.split("card", ""), F.ascii), F.lit(0), lambda total, letter: total + letter
    )
    weight = 0.9 * F.log1p(F.col("amount") / 1000)
    evidence = weight - 2.5 + 0.4 * F.sin(digits.cast("double"))
    return F.bround(1000 / (1 + F.exp(-evidence))).cast("int")
