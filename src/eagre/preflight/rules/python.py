"""PySpark's Python functions, which Real-Time Mode does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagre.preflight.finding import ALLOWLIST, REFUSED, Match, rule

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
def python_udf(facts: Facts) -> Iterator[Match]:
    """Open-source Real-Time Mode does not run PySpark's Python UDFs.

    Without Spark's check, a UDF would return nothing until the epoch ends, because its runner
    collects rows into batches first. `eg.udf` runs the same function row by row, in every mode:

        score = eg.udf(function, "double")          # instead of F.udf(function, "double")
        df.withColumn("risk", score("amount", "country"))

    `eg.batch_udf` replaces a pandas UDF: the function receives the rows that have arrived as lists.
    The guide to Python functions describes the cost of both. SQL expressions (`F.when`,
    `F.transform`, `F.aggregate` and several hundred more) run inside the JVM at no extra cost. The
    same file also runs unchanged in micro-batches: `eagre run APP.py --mode micro-batch`.
    """
    functions = [e for e in facts.plan.expressions if e["kind"] == "python"]
    for node in facts.plan.running(*PYTHON_UDF):
        named = ", ".join(dict.fromkeys(e["text"].split("(")[0] for e in functions)) or node.name
        line = next((e["line"] for e in functions if e["line"]), node.line)
        yield Match(
            f"Python function {named}",
            f"the Python function {named} cannot run in real time.",
            "define it with eg.udf or eg.batch_udf, write it as SQL expressions, or run in "
            "micro-batches: --mode micro-batch.",
            line=line,
        )


@rule("PYTHON_MAP", "error", REFUSED, ALLOWLIST)
def python_map(facts: Facts) -> Iterator[Match]:
    """`mapInPandas`, `mapInArrow`, `applyInPandas` and Python table functions need a whole batch.

    `eg.flat_map(df, function, schema)` turns each row into any number of rows, in every mode.
    `eg.batch_udf` passes the rows that have arrived to a function as lists. You can also use SQL
    expressions and `F.explode`, or run in micro-batches.
    """
    for node in facts.plan.running(*PYTHON_MAPS):
        yield Match(
            node.name,
            f"{node.name} collects rows into batches, and real time processes rows one by one.",
            "use eg.flat_map or eg.batch_udf, SQL expressions and F.explode, or run in "
            "micro-batches: --mode micro-batch.",
            line=node.line,
        )


@rule("PYTHON_STATE", "error", REFUSED, ALLOWLIST)
def python_state(facts: Facts) -> Iterator[Match]:
    """`applyInPandasWithState` and PySpark's `transformWithState` process their state in Python.

    `eg.transform_with_state(df.groupBy("card"), processor, schema)` runs the same
    `StatefulProcessor` (Row API), unchanged, in every mode, with its state in Spark's state store.
    It needs a new checkpoint. Built-in aggregations, windows and `dropDuplicates` often replace a
    custom processor: a running mean is `F.avg`, the last value is `F.max_by(value, at)`.
    """
    for node in facts.plan.running(*PYTHON_STATE):
        yield Match(
            node.name,
            f"{node.name} manages its state in Python, which real time does not run.",
            "pass the processor to eg.transform_with_state, use aggregations per key, or run in "
            "micro-batches: --mode micro-batch.",
            line=node.line,
        )
