"""Keyed state in the worker: PySpark's ``StatefulProcessor``, with its state in the JVM's store.

A call includes the key's value states; lists, maps and timers are fetched on use. The worker
buffers all changes and returns them with the answer of a successful call, so that a row that raises
does not change the state.
"""

from __future__ import annotations

import functools
import struct
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from .codec import row_codec
from .rows import Inputs, Outputs, Rows
from .session import DONE, TIMER_DELETE, TIMER_SET, WORKING, RevertibleState, Session
from .timers import Timers
from .variables import List, Map, Value, Variable
from .wire import COUNT, FLAG, TIME, Blocks, JvmGoneError, Wire, block, blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_CALL = struct.Struct("<Bqq")
_ROWS, _TIMER, _INITIAL, _SEVERAL = range(1, 5)
_SILENT_NS = 100_000_000
"""How often a worker reports progress between calls of the processor."""

_KINDS: dict[str, type[Variable]] = {"value": Value, "list": List, "map": Map}


class Handle:
    """The handle for ``init``: implements PySpark's ``StatefulProcessorHandle``."""

    def __init__(self, session: Session, variables: Sequence[dict[str, Any]]) -> None:
        self._session = session
        self._specs = {spec["name"]: (index, spec) for index, spec in enumerate(variables)}
        self.variables: list[Variable | None] = [None] * len(variables)
        self.timers = Timers(session)

    @property
    def parts(self) -> list[RevertibleState]:
        """Everything that a call can change."""
        return [*(v for v in self.variables if v is not None), self.timers]

    def _variable(self, kind: str, name: str) -> Any:  # noqa: ANN401  (one of three classes)
        index, spec = self._specs.get(name, (-1, {"kind": None}))
        if spec["kind"] != kind:
            raise RuntimeError(
                f"init requests the {kind} state {name!r}, which it did not request when the "
                "pipeline was built: it must request the same variables each time"
            )
        variable = _KINDS[kind](self._session, index, spec)
        variable.forget()
        self.variables[index] = variable
        return variable

    def getValueState(self, stateName: str, *_: Any, **__: Any) -> Value:  # noqa: ANN401, N802, N803
        """Return a value state."""
        return self._variable("value", stateName)  # type: ignore[no-any-return]

    def getListState(self, stateName: str, *_: Any, **__: Any) -> List:  # noqa: ANN401, N802, N803
        """Return a list state."""
        return self._variable("list", stateName)  # type: ignore[no-any-return]

    def getMapState(self, stateName: str, *_: Any, **__: Any) -> Map:  # noqa: ANN401, N802, N803
        """Return a map state."""
        return self._variable("map", stateName)  # type: ignore[no-any-return]

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803
        """Do nothing: the JVM removes the state when it opens the store."""

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        """Set a timer for the key."""
        self.timers.change(TIMER_SET, expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        """Remove a timer of the key."""
        self.timers.change(TIMER_DELETE, expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:  # noqa: N802
        """Return the key's timers."""
        return self.timers.all()


class ProcessorRunner:
    """Runs a stateful processor."""

    def __init__(
        self,
        spec: dict[str, Any],
        processor: Any,  # noqa: ANN401  (the user's StatefulProcessor)
        memory: Any,  # noqa: ANN401  (serve.MemoryLimit)
        reason: Callable[[str, BaseException], str],
    ) -> None:
        self._name = spec["names"][0]
        self._processor = processor
        self._memory = memory
        self._reason = reason
        self._session = Session()
        self._handle = Handle(self._session, spec["variables"])
        self._values = [i for i, v in enumerate(spec["variables"]) if v["kind"] == "value"]
        self._decode_key = row_codec(T.StructType.fromJson(spec["key"]), rows=False)[0]
        self._input = Inputs(spec["arguments"][0])
        self._initial = Rows(spec["initial"] or spec["key"])
        self._output = Outputs(spec["returns"], carries_source=spec["carries_source"])
        processor.init(self._handle)
        self._parts = self._handle.parts

    def close(self) -> None:
        """Close the processor."""
        self._processor.close()

    def answer(self, wire: Wire, message: bytes) -> None:
        """Answer one call."""
        call = Blocks(message)
        kind, now, watermark = call.take(_CALL)
        self._session.wire = wire
        self._session.key = 0
        self._input.provenance = None
        times = TimerValues(now, watermark)
        if kind == _SEVERAL:
            self._several(wire, call, times)
            return
        self._load(call)
        key, _ = self._decode_key(call.block(), 0)
        if kind == _ROWS:
            rows = [call.block() for _ in range(call.take(COUNT)[0])]
            outputs, failures = self._rows(key, rows, times)
        elif kind == _TIMER:
            expiry = ExpiredTimerInfo(call.take(TIME)[0])
            outputs, failures = self._guarded(
                lambda: self._processor.handleExpiredTimer(key, times, expiry), 0
            )
        else:
            state = self._initial.decode(call.block())
            outputs, failures = self._guarded(
                lambda: self._processor.handleInitialState(key, state, times), 0
            )
        self._done(wire, outputs, failures)

    def _several(self, wire: Wire, call: Blocks, times: TimerValues) -> None:
        """Process rows of several keys, one by one and independently."""
        keys, states = [], []
        for _ in range(call.take(COUNT)[0]):
            self._load(call)
            states.append(self._loaded)
            keys.append(self._decode_key(call.block(), 0)[0])
        parts = []
        reported = time.monotonic_ns()
        handle = self._processor.handleInputRows
        for _ in range(call.take(COUNT)[0]):
            (place,) = call.take(COUNT)
            self._session.key = place
            self._session.updates = []
            self._restore(states[place])
            rows = self._input.read([call.block()])
            outputs, failures = self._guarded(
                functools.partial(handle, keys[place], rows, times), 0
            )
            if not failures:
                states[place] = self._saved()
            parts.append(self._settled(outputs, failures))
            reported = self._report_progress(wire, reported)
        self._session.wire = None
        wire.send(DONE, FLAG.pack(self._memory.exhausted()), *parts)

    @staticmethod
    def _report_progress(wire: Wire, reported: int) -> int:
        """Report progress to the JVM: its timeout applies to a single call."""
        now = time.monotonic_ns()
        if now - reported < _SILENT_NS:
            return reported
        wire.send(WORKING)
        return now

    def _load(self, call: Blocks) -> None:
        """Load the key's value states, which arrive with the call."""
        self._session.updates = []
        for part in self._parts:
            part.forget()
        for index in self._values:
            data = call.block() if call.take(FLAG)[0] else None
            variable = self._handle.variables[index]
            if isinstance(variable, Value):
                variable.load(data)
        self._loaded = self._saved()

    def _done(self, wire: Wire, outputs: list[bytes], failures: list[tuple[int, str]]) -> None:
        self._session.wire = None
        self._memory.answered()
        wire.send(DONE, FLAG.pack(self._memory.exhausted()), self._settled(outputs, failures))

    def _settled(self, outputs: list[bytes], failures: list[tuple[int, str]]) -> bytes:
        """Encode the outcome of a call: failures, state changes and outputs."""
        reasons = [COUNT.pack(i) + block(text.encode(errors="replace")) for i, text in failures]
        updates = self._session.updates
        return b"".join(
            (
                COUNT.pack(len(reasons)),
                *reasons,
                COUNT.pack(len(updates)),
                *updates,
                blocks(outputs),
            )
        )

    def _rows(
        self,
        key: Any,  # noqa: ANN401  (a tuple of any types)
        data: Sequence[bytes],
        times: TimerValues,
    ) -> tuple[list[bytes], list[tuple[int, str]]]:
        """Process all rows in one call; if it raises, row by row to find the failing ones."""
        handle = self._processor.handleInputRows
        outputs, failures = self._guarded(lambda: handle(key, self._input.read(data), times), 0)
        if not failures or len(data) == 1:
            return outputs, failures
        self._restore(self._loaded)
        outputs, failures = [], []
        reported = time.monotonic_ns()
        for index, row in enumerate(data):
            snapshot, changes = self._saved(), len(self._session.updates)
            call = functools.partial(handle, key, self._input.read([row]), times)
            row_outputs, row_failures = self._guarded(call, index, changes)
            if row_failures:
                self._restore(snapshot)
            outputs += row_outputs
            failures += row_failures
            if self._session.wire is not None:
                reported = self._report_progress(self._session.wire, reported)
        return outputs, failures

    def _guarded(
        self, call: Callable[[], Iterable[Any] | None], index: int, changes: int = 0
    ) -> tuple[list[bytes], list[tuple[int, str]]]:
        """Call, and discard the changes after the first ``changes`` if it raises."""
        inputs, encode = self._input, self._output.encode
        try:
            return [encode(row, inputs.provenance) for row in call() or ()], []
        except JvmGoneError:
            raise
        except Exception as error:  # noqa: BLE001  (the row's, not the worker's)
            self._memory.blame(error)
            del self._session.updates[changes:]
            return [], [(index, self._reason(self._name, error))]

    def _saved(self) -> list[Any]:
        return [part.saved() for part in self._parts]

    def _restore(self, saved: list[Any]) -> None:
        for part, snapshot in zip(self._parts, saved, strict=True):
            part.restore(snapshot)
