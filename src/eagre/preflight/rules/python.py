"""Python functions of PySpark's own, which real time does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.finding import ALLOWLIST, REFUSED, Found, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.preflight.facts import Facts

PYTHON_UDF = ("BatchEvalPythonExec", "ArrowEvalPythonExec")
PYTHON_MAPS = (
    "MapInPandasExec",
    "MapInArrowExec",
    "PythonMapInArrowExec",
    "BatchEvalPythonUDTFExec",
    "ArrowEvalPythonUDTFExec",
    "FlatMapGroupsInPandasExec",
    "FlatMapGroupsInArrowExec",
    "ArrowAggregatePythonExec",
)
PYTHON_STATE = ("FlatMapGroupsInPandasWithStateExec", "TransformWithStateInPySparkExec")


@rule("PYTHON_UDF", "error", REFUSED, ALLOWLIST)
def python_udf(facts: Facts) -> Iterator[Found]:
    """Open-source Real-Time Mode runs no Python functions of PySpark's own.

    With Spark's check switched off a UDF would give nothing until the epoch ends, since its runner
    collects rows first. Eagre's bridge runs the same function row by row, in every mode:

        score = eg.udf(function, "double")          # instead of F.udf(function, "double")
        df.withColumn("risk", score("amount", "country"))

    `eg.batch_udf` takes the place of a pandas UDF: the function gets lists of the rows that are
    there. The guide to Python in the stream says what both cost. SQL expressions (`F.when`,
    `F.transform`, `F.aggregate` and several hundred more) run inside the JVM at no extra cost; and
    the same file runs as it is in micro-batches: `eagre run APP.py --mode micro-batch`.
    """
    functions = [e for e in facts.plan.expressions if e["kind"] == "python"]
    for node in facts.plan.running(*PYTHON_UDF):
        named = ", ".join(dict.fromkeys(e["text"].split("(")[0] for e in functions)) or node.name
        line = next((e["line"] for e in functions if e["line"]), node.line)
        yield Found(
            f"Python function {named}",
            f"the Python function {named} cannot run in real time.",
            "make it with eg.udf (or eg.batch_udf) instead, write it in SQL expressions, or run in "
            "micro-batches: --mode micro-batch.",
            line=line,
        )


@rule("PYTHON_MAP", "error", REFUSED, ALLOWLIST)
def python_map(facts: Facts) -> Iterator[Found]:
    """`mapInPandas`, `mapInArrow`, `applyInPandas` and Python table functions need a whole batch.

    `eg.flat_map(df, function, schema)` makes any number of rows of each row, in every mode;
    `eg.batch_udf` gives a function the rows that are there as lists. Or use SQL expressions and
    `F.explode`, or run in micro-batches.
    """
    for node in facts.plan.running(*PYTHON_MAPS):
        yield Found(
            node.name,
            f"{node.name} collects rows for Python, and real time passes them one by one.",
            "use eg.flat_map or eg.batch_udf, SQL expressions and F.explode, or run in "
            "micro-batches: --mode micro-batch.",
            line=node.line,
        )


@rule("PYTHON_STATE", "error", REFUSED, ALLOWLIST)
def python_state(facts: Facts) -> Iterator[Found]:
    """`applyInPandasWithState` and PySpark's `transformWithState` run their state in Python.

    `eg.transform_with_state(df.groupBy("card"), processor, schema)` runs the same, unchanged
    `StatefulProcessor` (its Row API) in every mode, with its state in Spark's own store; it needs a
    checkpoint of its own. Aggregations, windows and `dropDuplicates` in the JVM cover much of what
    is written by hand (a running mean is `F.avg`, the last value is `F.max_by(value, at)`).
    """
    for node in facts.plan.running(*PYTHON_STATE):
        yield Found(
            node.name,
            f"{node.name} keeps its state through Python, which real time does not run.",
            "give the processor to eg.transform_with_state, use aggregations per key, or run in "
            "micro-batches: --mode micro-batch.",
            line=node.line,
        )
