"""Functions of a row, of a list of rows, and of one row to many."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from eagre.config import interval_ms, megabytes
from eagre.error_policy import OnError, check_on_error, pipeline_context, policy
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.python.shipping import interpreter, is_local, pickled
from eagre.sources import SOURCE, WATERMARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

Kind = Literal["map", "flat", "batch", "state"]


@dataclass(frozen=True)
class Limits:
    """How a function is run.

    Attributes:
        timeout: How long a call may take, as an interval. Then its worker is replaced, and the row
            tried once more.
        memory: How much memory a worker may use, as a size. Then it is replaced between two rows;
            a call that wants twice as much gets a ``MemoryError``.
        on_error: What becomes of a row whose function raises, returns a wrong type, hangs or kills
            its worker: ``dead-letter`` (to the topic ``SOURCE.dlq``), ``drop`` (counted, and in the
            log) or ``fail`` (the query ends).
    """

    timeout: str = "30 seconds"
    memory: str = "1g"
    on_error: OnError = "dead-letter"

    def __post_init__(self) -> None:
        interval_ms(self.timeout)
        megabytes(self.memory)
        check_on_error(self.on_error)


class Function:
    """A Python function that is used as a column."""

    def __init__(
        self,
        function: Callable[..., Any],
        returns: str | DataType,
        kind: Kind,
        name: str | None,
        limits: Limits,
    ) -> None:
        if not callable(function):
            raise SettingsError(
                "FUNCTION_NOT_CALLABLE",
                f"a function is needed, not {type(function).__name__}.",
                hint='write @eg.udf("double") above a function, or eg.udf(function, "double").',
            )
        functools.update_wrapper(self, function)
        self.function = function
        self.returns = returns
        self.name: str = name or _name(function)
        self._kind = kind
        self._limits = limits

    def __call__(self, *columns: Column | str) -> Column:
        """Call it with columns; inside a worker, where another function uses it, with values."""
        from pyspark.sql import functions as F

        spark = _session(self.name)
        return gateway.function_column(
            spark,
            self.name,
            pickled(self.function, self.name),
            result_type(self.returns, self.name).json(),
            options(spark, self._kind, self._limits),
            F.struct(*columns),
        )

    def __reduce__(self) -> Any:  # noqa: ANN401  (what pickle takes)
        """In a worker it is the plain function."""
        return functools.partial, (self.function,)

    def __repr__(self) -> str:
        return f"<Python function {self.name}>"


def _name(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def udf(
    function: Callable[..., Any] | str | DataType | None = None,
    returns: str | DataType | None = None,
    *,
    name: str | None = None,
    timeout: str = "30 seconds",
    memory: str = "1g",
    on_error: OnError = "dead-letter",
) -> Any:  # noqa: ANN401  (a Function, or a decorator that makes one)
    """Use a Python function as a column, in real time and in every other mode.

    >>> @udf("double")
    ... def risk(amount, country):
    ...     return 0.9 if amount > 1000 and country != "CH" else 0.1
    >>> risk
    <Python function risk>
    >>> risk.function(2000, "DE")
    0.9

    ``df.withColumn("risk", risk("amount", "country"))`` calls it, once for each row.

    Args:
        function: The function; or the type of its results, when used as a decorator.
        returns: The type of its results, as DDL or DataType.
        name: What to call it in plans and messages, if not by its own name.
        timeout: How long a call may take.
        memory: How much memory a worker may use.
        on_error: What becomes of a row that fails: ``dead-letter``, ``drop`` or ``fail``.
    """
    return _decorator(function, returns, "map", name, Limits(timeout, memory, on_error))


def batch_udf(
    function: Callable[..., Any] | str | DataType | None = None,
    returns: str | DataType | None = None,
    *,
    name: str | None = None,
    timeout: str = "30 seconds",
    memory: str = "1g",
    on_error: OnError = "dead-letter",
) -> Any:  # noqa: ANN401  (a Function, or a decorator that makes one)
    """Use a function of lists as a column: it gets the rows that are there, for model inference.

    It gets one list for each column and gives a list (or array) of as many results. Rows are never
    held back to fill a list: one row alone is a list of one.

    >>> @batch_udf("double")
    ... def score(amounts, countries):
    ...     return [0.9 if amount > 1000 else 0.1 for amount in amounts]
    >>> score.function([2000, 5], ["DE", "CH"])
    [0.9, 0.1]

    Args:
        function: The function; or the type of one result, when used as a decorator.
        returns: The type of one result.
        name: What to call it in plans and messages, if not by its own name.
        timeout: How long a call may take.
        memory: How much memory a worker may use.
        on_error: What becomes of a row that fails. When the function raises, it is called again
            for each row alone.
    """
    return _decorator(function, returns, "batch", name, Limits(timeout, memory, on_error))


def _decorator(
    function: Any,  # noqa: ANN401  (told apart here)
    returns: str | DataType | None,
    kind: Kind,
    name: str | None,
    limits: Limits,
) -> Any:  # noqa: ANN401
    from pyspark.sql.types import DataType

    if isinstance(function, (str, DataType)) and returns is None:
        return lambda decorated: Function(decorated, function, kind, name, limits)
    if function is None and returns is not None:
        return lambda decorated: Function(decorated, returns, kind, name, limits)
    if function is None or returns is None:
        raise SettingsError(
            "RETURN_TYPE_MISSING",
            "a Python function needs the type of its results.",
            hint='write @eg.udf("double"), or eg.udf(function, "double").',
        )
    return Function(function, returns, kind, name, limits)


def flat_map(  # noqa: PLR0913  (each has a default)
    df: DataFrame,
    function: Callable[..., Iterable[Any]],
    schema: str | StructType,
    *,
    name: str | None = None,
    timeout: str = "30 seconds",
    memory: str = "1g",
    on_error: OnError = "dead-letter",
) -> DataFrame:
    """Make any number of rows of each row.

    >>> def words(row):
    ...     return [(word, len(word)) for word in row.text.split()]
    >>> flat_map(df, words, "word STRING, length INT")  # doctest: +SKIP

    ``_source`` is kept, and so is a watermark, if the schema has its column.

    Args:
        df: The rows.
        function: Gets a ``Row`` and gives Rows, tuples or dicts, as a list or by ``yield``.
        schema: The columns of the new rows.
        name: What to call it in plans and messages, if not by its own name.
        timeout: How long a call may take.
        memory: How much memory a worker may use.
        on_error: What becomes of a row that fails.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType

    made = row_type(schema, name or _name(function))
    limits = Limits(timeout, memory, on_error)
    call = Function(function, ArrayType(made), "flat", name, limits)
    kept = [SOURCE] if SOURCE in df.columns and SOURCE not in made.names else []
    rows = df.select(call(F.struct("*")).alias("_rows"), *kept)
    each = rows.select(F.explode("_rows").alias("_row"), *kept)
    return each.select(*_fields(df, made), *kept)


def _fields(df: DataFrame, made: StructType) -> list[Column]:
    """Take the new rows apart; a column that is the watermark's stays the watermark's."""
    from pyspark.sql import functions as F

    marks = {
        field.name: field.metadata
        for field in df.schema.fields
        if WATERMARK in (field.metadata or {})
    }
    return [
        F.col("_row").getField(f.name).alias(f.name, metadata=marks[f.name])
        if f.name in marks and f.dataType == df.schema[f.name].dataType
        else F.col("_row").getField(f.name).alias(f.name)
        for f in made.fields
    ]


def options(spark: SparkSession, kind: Kind, limits: Limits) -> str:
    """Say how a function is to be run; ``Options.java`` reads it."""
    python, path = interpreter(spark)
    told = {
        **policy(limits.on_error, pipeline_context().clusters),
        "kind": kind,
        "python": python,
        "path": path,
        "timeout_ms": interval_ms(limits.timeout),
        "memory_mb": megabytes(limits.memory),
    }
    text = json.dumps(told)
    if is_local(spark):
        gateway.warm_workers(spark, text)
    return text


def result_type(returns: str | DataType, name: str) -> DataType:
    """Read the type of a function's results.

    Raises:
        SettingsError: It is malformed, or has no counterpart in Python.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType, _parse_datatype_string

    from eagre.python.eagre_worker.codec import codec
    from eagre.python.eagre_worker.layout import NoCodecError

    try:
        kind = returns if isinstance(returns, DataType) else _parse_datatype_string(returns)
        codec(kind)
    except (PySparkException, NoCodecError) as error:
        raise SettingsError(
            "RETURN_TYPE_UNUSABLE",
            f"the results of {name} cannot be of type {returns!r}: "
            f"{str(error).strip().splitlines()[0]}",
            hint='write it as DDL, such as "double" or "score DOUBLE, reason STRING".',
        ) from None
    return kind


def row_type(schema: str | StructType, name: str) -> StructType:
    """Read the columns of a function's rows.

    Raises:
        SettingsError: They are malformed, or not columns.
    """
    from pyspark.sql.types import StructType

    kind = result_type(schema, name)
    if not isinstance(kind, StructType):
        raise SettingsError(
            "SCHEMA_OF_ROWS",
            f"{name} gives rows, and {schema!r} does not name their columns.",
            hint='write it as DDL, such as "word STRING, length INT".',
        )
    return kind


def _session(name: str) -> SparkSession:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001
    if spark is None:
        raise SettingsError(
            "NO_SESSION",
            f"{name} is used as a column, and there is no Spark session.",
            hint="make one with eg.session(); to call the plain function use its .function.",
        )
    return spark
