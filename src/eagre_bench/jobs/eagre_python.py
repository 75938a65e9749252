"""The Python workloads in Eagre, and the same map as a batch function and in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from semantics import python_state as step
from semantics import risk

import eagre as eg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues


def python_map(df: DataFrame, variant: str) -> DataFrame:
    """Score each payment: with a row function, a batch function, or SQL."""
    scored = {"bridge": by_row, "batch": by_list, "sql": in_sql}[variant]()
    return df.select("id", "card", "amount", scored.alias("risk"))


def by_row() -> Column:
    """Call Python for each payment."""
    return eg.udf(risk, "int")("card", "amount")  # type: ignore[no-any-return]


def by_list() -> Column:
    """Call Python for the payments that are available."""
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


class Deviation(StatefulProcessor):
    """The deviation of each payment from the card's mean."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Store the mean in one value."""
        self._statistics = handle.getValueState("statistics", "n LONG, mean DOUBLE, squares DOUBLE")

    def handleInputRows(  # noqa: N802  (PySpark's name)
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[tuple[Any, ...]]:
        """Score a card's payments, in their order."""
        del timerValues
        known = self._statistics.get()
        state = {"n": known[0], "mean": known[1], "squares": known[2]} if known else {}
        for row in rows:
            result = step(state, {"card": key[0], "amount": row.amount}, {})[0]
            yield result["card"], result["n"], result["score"]
        self._statistics.update((state["n"], state["mean"], state["squares"]))

    def close(self) -> None:
        """Nothing to close."""


def python_state(df: DataFrame) -> DataFrame:
    """Keep state in Python."""
    return eg.transform_with_state(
        df.groupBy("card"), Deviation(), "card STRING, n LONG, score LONG"
    )
