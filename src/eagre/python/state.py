"""Keyed state in Python: runs PySpark's ``StatefulProcessor`` in every mode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, get_args

from eagre.connectors import SOURCE, WATERMARK
from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.python.functions import Limits, options, row_type
from eagre.python.shipping import pickled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.group import GroupedData
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

    from eagre.connectors.error_policy import OnError

TimeMode = Literal["none", "processing-time", "event-time"]

TICK_MS = 50
"""How often an idle partition checks its timers: the maximum delay of a timer."""

_SPARK_TIME = {
    "none": "None",
    "processing-time": "ProcessingTime",
    "event-time": "EventTime",
}


def transform_with_state(  # noqa: PLR0913  (each has a default)
    grouped: GroupedData,
    processor: StatefulProcessor,
    schema: str | StructType,
    time_mode: TimeMode = "none",
    *,
    initial_state: GroupedData | None = None,
    event_time_column: str | None = None,
    name: str | None = None,
    timeout: str = "30 seconds",
    memory: str = "1g",
    on_error: OnError = "dead-letter",
) -> DataFrame:
    """Run an unchanged PySpark ``StatefulProcessor`` (Row API) over the rows of each key.

    The state is part of the checkpoint. ``handleInputRows`` must handle one row per call, in real
    time, and all rows of a key, in a micro-batch. A call that fails does not change the state.

    >>> from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    >>> class Count(StatefulProcessor):
    ...     def init(self, handle):
    ...         self.seen = handle.getValueState("seen", "n LONG")
    ...     def handleInputRows(self, key, rows, timerValues):
    ...         for row in rows:
    ...             n = (self.seen.get() or (0,))[0] + 1
    ...             self.seen.update((n,))
    ...             yield key[0], n
    ...     def close(self): ...
    >>> transform_with_state(df.groupBy("card"), Count(), "card STRING, n LONG")  # doctest: +SKIP

    Args:
        grouped: ``df.groupBy(...)``. Each result gets the ``_source`` of its row, if it has one.
        processor: The processor.
        schema: The columns of the results.
        time_mode: ``none``; ``processing-time`` for TTL and timers in processing time, which fire
            within about 50 ms, even if the stream is idle; ``event-time`` for timers by the
            watermark, which advances at epoch boundaries.
        initial_state: A static DataFrame with the same grouping, for ``handleInitialState``.
        event_time_column: The column of the results that is the event time of the next stateful
            operator, with the delay of this one's watermark: PySpark's ``eventTimeColumnName``.
        name: The name in messages. Default: the name of the class.
        timeout: How long a call may take.
        memory: How much memory a worker may use.
        on_error: What to do with a row that fails: ``dead-letter``, ``drop`` or ``fail``.

    Raises:
        SettingsError: The processor cannot be pickled, or its state or event time is invalid.
    """
    label = name or type(processor).__name__
    code = pickled(processor, label)
    spark = grouped._df.sparkSession  # noqa: SLF001  (PySpark offers no public way)
    declared = {**declaration(code, label, time_mode), "label": label}
    described, output = _rows(grouped, initial_state, row_type(schema, label))
    results = gateway.transform_with_state(
        *(spark, grouped, initial_state, code),
        *(json.dumps({**declared, **described}), output.json(), _SPARK_TIME[time_mode]),
        options(spark, "state", Limits(timeout, memory, on_error)),
        TICK_MS if time_mode == "processing-time" and _has_timers(processor) else 0,
    )
    return _with_event_time(results, event_time_column, grouped, label)


def _with_event_time(
    results: DataFrame, column: str | None, grouped: GroupedData, label: str
) -> DataFrame:
    """Make a column of the results their event time, with the delay of the input's watermark.

    Spark's own node for this needs the columns of the results directly after the processor, and
    they are bytes there; later operators look only at the metadata.
    """
    if column is None:
        return results
    fields = grouped._df.schema.fields  # noqa: SLF001  (PySpark offers no public way)
    delays = [field.metadata[WATERMARK] for field in fields if WATERMARK in (field.metadata or {})]
    if column not in results.columns:
        raise SettingsError(
            "COLUMN_UNKNOWN",
            f"the event time {column!r} of {label} is not among its results "
            f"{', '.join(results.columns)}.",
        )
    kind = results.schema[column].dataType.typeName()
    if not kind.startswith("timestamp"):
        raise SettingsError(
            "EVENT_TIME_TYPE",
            f"the event time {column!r} of {label} must be a timestamp, not {kind}.",
        )
    if not delays:
        raise SettingsError(
            "EVENT_TIME_MISSING",
            f"the rows of {label} have no watermark, whose delay its results would take over.",
            hint='name one: eg.Kafka(..., event_time="at", watermark="10 seconds").',
        )
    return results.withMetadata(column, {WATERMARK: delays[0]})


def _require_time_mode(time_mode: str) -> None:
    if time_mode not in get_args(TimeMode):
        raise SettingsError(
            "TIME_MODE_UNKNOWN",
            f"time_mode must be one of {', '.join(get_args(TimeMode))}, not {time_mode!r}.",
        )


def _rows(
    grouped: GroupedData, initial_state: GroupedData | None, output: StructType
) -> tuple[dict[str, Any], StructType]:
    """Describe the rows of a processor; results carry ``_source`` if their input rows have it."""
    df = grouped._df  # noqa: SLF001  (PySpark offers no public way)
    carried = SOURCE in df.columns and SOURCE not in output.names
    if carried:
        output = type(output)([*output.fields, df.schema[SOURCE]])
    initial = initial_state._df.schema.jsonValue() if initial_state else None  # noqa: SLF001
    described = {"returns": output.jsonValue(), "initial": initial, "carries_source": carried}
    return described, output


def _has_timers(processor: StatefulProcessor) -> bool:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor as Base

    return type(processor).handleExpiredTimer is not Base.handleExpiredTimer


def declaration(code: bytes, name: str, time_mode: TimeMode) -> dict[str, Any]:
    """Run ``init`` on a copy to record the state variables.

    Raises:
        SettingsError: ``init`` raises, or the time mode or a state variable is invalid.
    """
    from pyspark import cloudpickle

    _require_time_mode(time_mode)
    recorder = Recorder(name, time_mode)
    copy = cloudpickle.loads(code)
    try:
        copy.init(recorder)
        copy.close()
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(
            "PROCESSOR_INIT_RAISED", f"init of {name} raised {type(error).__name__}: {error}."
        ) from error
    _require_undeleted(recorder, name)
    return {"variables": recorder.variables, "deleted": recorder.deleted}


def _require_undeleted(recorder: Recorder, name: str) -> None:
    requested = [variable["name"] for variable in recorder.variables]
    both = [state for state in requested if state in recorder.deleted]
    if both:
        raise SettingsError(
            "STATE_DELETED",
            f"init of {name} requests the state {both[0]!r} and deletes it. It would be emptied in "
            "each epoch, and Spark raises when it is used.",
            hint=f"remove getValueState, getListState or getMapState({both[0]!r}), or "
            f"deleteIfExists({both[0]!r}).",
        )


class Recorder:
    """The handle for ``init`` at planning time: it records the state variables."""

    def __init__(self, name: str, time_mode: TimeMode) -> None:
        self.variables: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self._name = name
        self._ttl_allowed = time_mode == "processing-time"

    def getValueState(  # noqa: N802  (PySpark's names, here and below)
        self,
        stateName: str,  # noqa: N803
        schema: str | StructType,
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> None:
        """Record a value state."""
        self._record("value", stateName, schema, ttlDurationMs)

    def getListState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        schema: str | StructType,
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> None:
        """Record a list state."""
        self._record("list", stateName, schema, ttlDurationMs)

    def getMapState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        userKeySchema: str | StructType,  # noqa: N803
        valueSchema: str | StructType,  # noqa: N803
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> None:
        """Record a map state."""
        self._record("map", stateName, valueSchema, ttlDurationMs, userKeySchema)

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803
        """Record a state to remove."""
        self.deleted.append(stateName)

    def _record(
        self,
        kind: str,
        name: str,
        schema: str | StructType,
        ttl_ms: int | None,
        key: str | StructType | None = None,
    ) -> None:
        if any(variable["name"] == name for variable in self.variables):
            raise SettingsError(
                "STATE_NAMED_TWICE", f"init of {self._name} requests the state {name!r} twice."
            )
        if ttl_ms is not None and not self._ttl_allowed:
            raise SettingsError(
                "TTL_NEEDS_PROCESSING_TIME",
                f"the state {name!r} of {self._name} has a TTL, which requires processing time.",
                hint='pass time_mode="processing-time".',
            )
        label = f"the state {name!r} of {self._name}"
        self.variables.append(
            {
                "kind": kind,
                "name": name,
                "schema": row_type(schema, label).jsonValue(),
                "key": row_type(key, label).jsonValue() if key is not None else None,
                "ttl_ms": ttl_ms,
            }
        )
