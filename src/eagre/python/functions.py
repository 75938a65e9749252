"""Python functions as columns: per row, per batch, and from one row to many."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from eagre.config import interval_ms, megabytes
from eagre.connectors import SOURCE, WATERMARK
from eagre.connectors.error_policy import OnError, check_on_error
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.python.shipping import interpreter, is_local, pickled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

Kind = Literal["map", "flat", "batch", "state", "sink"]


@dataclass(frozen=True)
class Limits:
    """The limits of a function, and its error policy.

    Attributes:
        timeout: How long a call may take. After that, the worker is replaced, and the row is
            retried once.
        memory: How much memory a worker may use. Above that, it is replaced between two rows; a
            call that needs twice as much gets a ``MemoryError``.
        on_error: What to do with a row whose function raises, returns a wrong type, hangs or
            crashes its worker: ``dead-letter`` (send it to the topic ``SOURCE.dlq``), ``drop``
            (count and log it) or ``fail`` (stop the query).
    """

    timeout: str = "30 seconds"
    memory: str = "1g"
    on_error: OnError = "dead-letter"

    def __post_init__(self) -> None:
        interval_ms(self.timeout)
        megabytes(self.memory)
        check_on_error(self.on_error)


class Function:
    """A Python function that can be used as a column."""

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
                f"the function must be callable, not {type(function).__name__}.",
                hint='decorate a function with @eg.udf("double"), or call '
                'eg.udf(function, "double").',
            )
        functools.update_wrapper(self, function)
        self.function = function
        self.returns = returns
        self.name: str = name or _name(function)
        self._kind = kind
        self._limits = limits

    def __call__(self, *columns: Column | str) -> Column:
        """Call it with columns; inside a worker it is the plain function and takes values."""
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

    def __reduce__(self) -> Any:  # noqa: ANN401  (the pickle protocol)
        """Unpickle to the plain function in a worker."""
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
) -> Any:  # noqa: ANN401  (a Function, or a decorator that returns one)
    """Use a Python function as a column, in real time and in every other mode.

    >>> @udf("double")
    ... def risk(amount, country):
    ...     return 0.9 if amount > 1000 and country != "CH" else 0.1
    >>> risk
    <Python function risk>
    >>> risk.function(2000, "DE")
    0.9

    ``df.withColumn("risk", risk("amount", "country"))`` calls it once for each row.

    Args:
        function: The function; or, as a decorator, the type of its results.
        returns: The type of its results, as DDL or DataType.
        name: The name in plans and messages. Default: the name of the function.
        timeout: How long a call may take.
        memory: How much memory a worker may use.
        on_error: What to do with a row that fails: ``dead-letter``, ``drop`` or ``fail``.
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
) -> Any:  # noqa: ANN401  (a Function, or a decorator that returns one)
    """Use a Python function over lists as a column, for example for model inference.

    It receives the rows that have arrived, as one list per column, and returns a list or array of
    the same length. Rows never wait for a list to fill: a single row is a list of one element.

    >>> @batch_udf("double")
    ... def score(amounts, countries):
    ...     return [0.9 if amount > 1000 else 0.1 for amount in amounts]
    >>> score.function([2000, 5], ["DE", "CH"])
    [0.9, 0.1]

    Args:
        function: The function; or, as a decorator, the type of one result.
        returns: The type of one result.
        name: The name in plans and messages. Default: the name of the function.
        timeout: How long a call may take.
        memory: How much memory a worker may use.
        on_error: What to do with a row that fails. If the function raises, it is called again for
            each row separately.
    """
    return _decorator(function, returns, "batch", name, Limits(timeout, memory, on_error))


def _decorator(
    function: Any,  # noqa: ANN401  (a function or a type)
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
            "the result type of the Python function is missing.",
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
    """Turn each row into any number of rows.

    >>> def words(row):
    ...     return [(word, len(word)) for word in row.text.split()]
    >>> flat_map(df, words, "word STRING, length INT")  # doctest: +SKIP

    The new rows keep ``_source``, and the watermark if the schema contains its column.

    Args:
        df: The rows.
        function: Takes a ``Row`` and returns or yields Rows, tuples or dicts.
        schema: The columns of the new rows.
        name: The name in plans and messages. Default: the name of the function.
        timeout: How long a call may take.
        memory: How much memory a worker may use.
        on_error: What to do with a row that fails.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType

    result = row_type(schema, name or _name(function))
    limits = Limits(timeout, memory, on_error)
    call = Function(function, ArrayType(result), "flat", name, limits)
    source = [SOURCE] if SOURCE in df.columns and SOURCE not in result.names else []
    rows = df.select(call(F.struct("*")).alias("_rows"), *source)
    exploded = rows.select(F.explode("_rows").alias("_row"), *source)
    return exploded.select(*_fields(df, result), *source)


def _fields(df: DataFrame, result: StructType) -> list[Column]:
    """Return the columns of the new rows; the watermark's column keeps its watermark."""
    from pyspark.sql import functions as F

    watermarks = {
        field.name: field.metadata
        for field in df.schema.fields
        if WATERMARK in (field.metadata or {})
    }
    return [
        F.col("_row").getField(f.name).alias(f.name, metadata=watermarks[f.name])
        if f.name in watermarks and f.dataType == df.schema[f.name].dataType
        else F.col("_row").getField(f.name).alias(f.name)
        for f in result.fields
    ]


def options(spark: SparkSession, kind: Kind, limits: Limits, **more: int) -> str:
    """Return the options of a function as JSON.

    ``QueryContext.java`` adds the pipeline and its dead letters, which the plan names.

    Args:
        spark: The session.
        kind: How it is called.
        limits: Its limits.
        more: Options of this kind.
    """
    python, path = interpreter(spark)
    fields = {
        "on_error": limits.on_error,
        "kind": kind,
        "python": python,
        "path": path,
        "timeout_ms": interval_ms(limits.timeout),
        "memory_mb": megabytes(limits.memory),
        **more,
    }
    text = json.dumps(fields)
    if is_local(spark):
        gateway.warm_workers(spark, text)
    return text


def result_type(returns: str | DataType, name: str) -> DataType:
    """Parse the result type of a function.

    Raises:
        SettingsError: It is malformed, or has no equivalent in Python.
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
            f"the result type of {name} cannot be {returns!r}: "
            f"{str(error).strip().splitlines()[0]}",
            hint='write it as DDL, such as "double" or "score DOUBLE, reason STRING".',
        ) from None
    return kind


def row_type(schema: str | StructType, name: str) -> StructType:
    """Parse the schema of a function's rows.

    Raises:
        SettingsError: It is malformed, or not a schema.
    """
    from pyspark.sql.types import StructType

    kind = result_type(schema, name)
    if not isinstance(kind, StructType):
        raise SettingsError(
            "SCHEMA_OF_ROWS",
            f"{name} returns rows, and {schema!r} does not name their columns.",
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
            hint="create one with eg.session(); to call the plain function, use its .function.",
        )
    return spark
