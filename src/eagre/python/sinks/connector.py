"""The connector for sinks in Python."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar

from eagre.config import interval_ms
from eagre.connectors import SOURCE, Capabilities, QueryContext
from eagre.connectors import Sink as Connector
from eagre.connectors.kafka.sink import has_provenance
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.python.functions import Limits, options
from eagre.python.shipping import by_value, pickled
from eagre.python.sinks import base, http

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ORDINAL = "_ordinal"


@dataclass(frozen=True, eq=False)
class PythonSink(Connector):
    """A sink in Python, as the sink of a pipeline.

    Attributes:
        target: The user's sink.
    """

    capabilities: ClassVar = Capabilities(mid_epoch_commits=True)

    target: base.Sink

    def __post_init__(self) -> None:
        rows = self.target.batch_rows
        if not isinstance(rows, int) or rows < 1:
            raise SettingsError(
                "SINK_BATCH", f"batch_rows of {self} must be a positive number, not {rows!r}."
            )
        interval_ms(self.target.retry_for)
        self._limits  # noqa: B018  (checks them)

    def __str__(self) -> str:
        shown = getattr(self.target, "target", self.target)
        described = type(shown).__str__ is not object.__str__
        return str(shown) if described else getattr(shown, "__name__", type(shown).__name__)

    @property
    def kind(self) -> str:
        """The kind of system that it writes to: ``http``, or ``python``."""
        return "http" if isinstance(self.target, http.Http) else "python"

    @property
    def _limits(self) -> Limits:
        target = self.target
        return Limits(target.timeout, target.memory, target.on_refused)  # type: ignore[arg-type]

    def rows_written(self, spark: SparkSession, pipeline: str) -> int:
        """Return how many rows the sink has acknowledged."""
        return gateway.written(spark, pipeline)

    def write_stream(self, rows: DataFrame, query: QueryContext) -> DataStreamWriter:
        """Prepare the write: Python is called for each row, and acknowledged rows are counted."""
        from pyspark.sql import functions as F

        for module in (base, http):
            by_value(module)
        spark = rows.sparkSession
        numbered, position = _with_position(rows)
        columns = [name for name in numbered.columns if name not in position]
        if not columns:
            raise SettingsError("SINK_WITHOUT_COLUMNS", f"the rows for {self} have no columns.")
        row = F.struct(*(numbered[_quoted(name)] for name in columns)).alias("row")
        retries = {
            "batch_rows": self.target.batch_rows,
            "retry_ms": interval_ms(self.target.retry_for),
        }
        call = gateway.function_column(
            spark,
            str(self),
            pickled(self.target, str(self)),
            json.dumps("boolean"),
            options(spark, "sink", self._limits, **retries),
            F.struct(row, *(numbered[name] for name in position)),
        )
        return gateway.acknowledged(numbered.select(call.alias("written")), query.pipeline)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _with_position(rows: DataFrame) -> tuple[DataFrame, list[str]]:
    """Add the provenance of rows, and their number within their record, if known; name both."""
    if SOURCE not in rows.columns and gateway.row_by_row(rows):
        try:
            rows = gateway.with_provenance(rows, ())
        except SettingsError:
            return rows, []
    if not has_provenance(rows):
        return rows, []
    if not gateway.keeps_records_together(rows):
        return rows, [SOURCE]
    ordinal = ORDINAL
    while ordinal in rows.columns:
        ordinal += "_"
    number = gateway.row_number(rows.sparkSession, rows[SOURCE])
    return rows.withColumn(ordinal, number), [SOURCE, ordinal]


def adapted(sink: Any) -> Connector | None:  # noqa: ANN401  (anything that may be a sink)
    """Return the connector for a sink in Python; None if it is something else."""
    if isinstance(sink, type):
        return None
    if isinstance(sink, base.Sink):
        return PythonSink(sink)
    function = isinstance(sink, (FunctionType, MethodType, functools.partial))
    if callable(getattr(sink, "process", None)) or function:
        return PythonSink(base.ForeachSink(sink))
    return None
