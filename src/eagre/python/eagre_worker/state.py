"""Keyed state in the worker: PySpark's ``StatefulProcessor``, its state in the JVM's store.

A call brings the key's values along; lists, maps and timers are asked for when they are used. All
changes stay here until the call has ended well and go back with its answer, so that a row that
raises leaves no trace.
"""

from __future__ import annotations

import functools
import itertools
import struct
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from .codec import WrongTypeError, field_values, row_codec
from .wire import Blocks, JvmGoneError, Wire, block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SOURCE = "_source"

_CALL = struct.Struct("<Bqq")
_COUNT = struct.Struct("<I")
_TIME = struct.Struct("<q")
_FLAG = struct.Struct("<B")
_OP = struct.Struct("<BB")

_ROWS, _TIMER, _INITIAL, _SEVERAL = range(1, 5)
_DONE, _ASK, _WORKING = b"\0", b"\1", b"\2"
_SILENT_NS = 100_000_000
"""How long a worker may say nothing between two calls of the processor."""
_ASK_LIST, _ASK_ENTRY, _ASK_MAP, _ASK_TIMERS = range(4)
(
    _UPDATE,
    _CLEAR,
    _LIST_PUT,
    _LIST_APPEND,
    _LIST_CLEAR,
    _MAP_PUT,
    _MAP_REMOVE,
    _MAP_CLEAR,
    _TIMER_SET,
    _TIMER_DELETE,
) = range(10)


class Rows:
    """The rows of one schema: bytes to a Row, and a user's tuple, list, dict or Row to bytes."""

    def __init__(self, schema: dict[str, Any]) -> None:
        kind = T.StructType.fromJson(schema)
        self._decode, self._encode = row_codec(kind)
        self._fields = field_values(kind)

    def decode(self, data: bytes) -> T.Row:
        """Read one."""
        return self._decode(data, 0)[0]  # type: ignore[no-any-return]

    def encode(self, value: Any) -> bytes:  # noqa: ANN401  (checked here)
        """Write one."""
        if value is None:
            raise WrongTypeError("None is no row; clear() removes a state")
        return self._encode(self._fields(value))


class Inputs:
    """The rows that come in; where they come from stays bytes beside them, to be passed on."""

    def __init__(self, schema: dict[str, Any]) -> None:
        kind = T.StructType.fromJson(schema)
        self._names = kind.names
        self._place = kind.names.index(SOURCE) if SOURCE in kind.names else None
        self._decode = row_codec(_with_raw_source(kind), rows=False)[0]
        source = kind[SOURCE].dataType if SOURCE in kind.names else None
        self._source = row_codec(source)[0] if isinstance(source, T.StructType) else None
        self.origin: bytes | None = None
        """Of the row that was read last."""

    def read(self, items: Iterable[bytes]) -> Iterator[T.Row]:
        """Give rows as they are asked for."""
        place, source = self._place, self._source
        for item in items:
            values = self._decode(item, 0)[0]
            if place is not None and source is not None and values[place] is not None:
                self.origin = values[place]
                values = (*values[:place], source(values[place], 0)[0], *values[place + 1 :])
            row = tuple.__new__(T.Row, values)
            row.__fields__ = self._names
            yield row


class Outputs:
    """The rows that go out; where they come from is put behind them as it was."""

    def __init__(self, schema: dict[str, Any], *, carries_source: bool) -> None:
        kind = T.StructType.fromJson(schema)
        own = T.StructType(kind.fields[:-1]) if carries_source else kind
        self._fields = field_values(own)
        self._encode = row_codec(_with_raw_source(kind) if carries_source else kind)[1]
        self._carries = carries_source

    def encode(self, value: Any, origin: bytes | None) -> bytes:  # noqa: ANN401  (checked here)
        """Write one; a Row with names by them, as PySpark does."""
        if isinstance(value, T.Row) and "__fields__" in value.__dict__:
            value = value.asDict()
        fields = self._fields(value)
        return self._encode((*fields, origin) if self._carries else fields)


def _with_raw_source(kind: T.StructType) -> T.StructType:
    """Read the origin of a row as bytes: a struct within a row is bytes behind their length."""
    return T.StructType(
        [T.StructField(f.name, T.BinaryType() if f.name == SOURCE else f.dataType) for f in kind]
    )


class Session:
    """What one call has read and changed so far."""

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self.key = 0
        self.updates: list[bytes] = []

    def ask(self, op: int, index: int, argument: bytes = b"") -> Blocks:
        """Ask the JVM for more of the key's state."""
        if self.wire is None:
            raise RuntimeError("state can only be used while rows or timers are handled")
        self.wire.send(_ASK, _COUNT.pack(self.key), _OP.pack(op, index), argument)
        return Blocks(self.wire.receive())

    def change(self, op: int, index: int, argument: bytes = b"") -> None:
        """Note a change."""
        self.updates.append(_OP.pack(op, index) + argument)


class Kept:
    """What a key has, as a call sees it: with its own changes, and a past to go back to."""

    def forget(self) -> None:
        """Begin a call."""
        raise NotImplementedError

    def saved(self) -> Any:  # noqa: ANN401  (each variable's own)
        """Give what ``restore`` takes."""
        raise NotImplementedError

    def restore(self, saved: Any) -> None:  # noqa: ANN401  (as above)
        """Undo what came after ``saved``."""
        raise NotImplementedError


class Timers(Kept):
    """The key's timers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.forget()

    def forget(self) -> None:
        """Begin a call."""
        self._changes: list[tuple[int, int]] = []

    def saved(self) -> Any:  # noqa: ANN401
        """Give what ``restore`` takes."""
        return self._changes

    def restore(self, saved: Any) -> None:  # noqa: ANN401
        """Undo what came after ``saved``."""
        self._changes = saved

    def change(self, op: int, at: int) -> None:
        """Set or delete one."""
        self._changes = [*self._changes, (op, int(at))]
        self._session.change(op, 0, _TIME.pack(int(at)))

    def all(self) -> Iterator[int]:
        """Give them all."""
        reply = self._session.ask(_ASK_TIMERS, 0)
        timers = {reply.take(_TIME)[0] for _ in range(reply.take(_COUNT)[0])}
        for op, at in self._changes:
            (timers.add if op == _TIMER_SET else timers.discard)(at)
        return iter(sorted(timers))


class Variable(Kept):
    """A state variable: rows of a schema, at a place in the session."""

    def __init__(self, session: Session, index: int, spec: dict[str, Any]) -> None:
        self._session = session
        self._index = index
        self._rows = Rows(spec["schema"])


class Value(Variable):
    """``ValueState``: it came with the call."""

    _data: bytes | None = None

    def load(self, data: bytes | None) -> None:
        """Take what came with the call."""
        self._data = data

    def forget(self) -> None:
        """Begin a call; ``load`` follows."""
        self._data = None

    def saved(self) -> Any:  # noqa: ANN401
        """Give what ``restore`` takes."""
        return self._data

    def restore(self, saved: Any) -> None:  # noqa: ANN401
        """Undo what came after ``saved``."""
        self._data = saved

    def exists(self) -> bool:
        """Tell whether the key has a value."""
        return self._data is not None

    def get(self) -> T.Row | None:
        """Give the key's value, or None."""
        return None if self._data is None else self._rows.decode(self._data)

    def update(self, newValue: Any) -> None:  # noqa: ANN401, N803  (PySpark's name)
        """Set the key's value."""
        self._data = self._rows.encode(newValue)
        self._session.change(_UPDATE, self._index, block(self._data))

    def clear(self) -> None:
        """Remove the key's value."""
        self._data = None
        self._session.change(_CLEAR, self._index)


class List(Variable):
    """``ListState``: what it holds is only asked for when it is read."""

    def forget(self) -> None:
        """Begin a call."""
        self._known: list[bytes] | None = None
        self._more: list[bytes] = []

    def saved(self) -> Any:  # noqa: ANN401
        """Give what ``restore`` takes."""
        return self._known, list(self._more)

    def restore(self, saved: Any) -> None:  # noqa: ANN401
        """Undo what came after ``saved``."""
        self._known, self._more = saved

    def _all(self) -> list[bytes]:
        if self._known is None:
            reply = self._session.ask(_ASK_LIST, self._index)
            self._known = [reply.block() for _ in range(reply.take(_COUNT)[0])]
        return self._known + self._more

    def exists(self) -> bool:
        """Tell whether the key has elements."""
        return bool(self._more) or bool(self._all())

    def get(self) -> Iterator[T.Row]:
        """Give the key's elements."""
        return map(self._rows.decode, self._all())

    def put(self, newState: Iterable[Any]) -> None:  # noqa: N803  (PySpark's name)
        """Replace the key's elements."""
        encoded = self._encoded(newState)
        self._known, self._more = encoded, []
        self._session.change(_LIST_PUT, self._index, _blocks(encoded))

    def appendValue(self, newState: Any) -> None:  # noqa: ANN401, N802, N803
        """Add an element."""
        self.appendList([newState])

    def appendList(self, newState: Iterable[Any]) -> None:  # noqa: N802, N803
        """Add elements."""
        more = self._encoded(newState)
        self._more = self._more + more
        self._session.change(_LIST_APPEND, self._index, _blocks(more))

    def clear(self) -> None:
        """Remove the key's elements."""
        self._known, self._more = [], []
        self._session.change(_LIST_CLEAR, self._index)

    def _encoded(self, values: Iterable[Any]) -> list[bytes]:
        encoded = [self._rows.encode(value) for value in values]
        if not encoded:
            raise ValueError("a list state takes no empty list; clear() removes it")
        return encoded


class Map(Variable):
    """``MapState``: entries as they are asked for, all of them when they are walked through."""

    def __init__(self, session: Session, index: int, spec: dict[str, Any]) -> None:
        super().__init__(session, index, spec)
        self._keys = Rows(spec["key"])

    def forget(self) -> None:
        """Begin a call."""
        self._known: dict[bytes, bytes | None] = {}
        self._complete = False

    def saved(self) -> Any:  # noqa: ANN401
        """Give what ``restore`` takes."""
        return dict(self._known), self._complete

    def restore(self, saved: Any) -> None:  # noqa: ANN401
        """Undo what came after ``saved``."""
        known, self._complete = saved
        self._known = dict(known)

    def _entry(self, key: Any) -> bytes | None:  # noqa: ANN401  (checked by the codec)
        name = self._keys.encode(key)
        if name not in self._known and not self._complete:
            reply = self._session.ask(_ASK_ENTRY, self._index, block(name))
            self._known[name] = reply.block() if reply.take(_FLAG)[0] else None
        return self._known.get(name)

    def _all(self) -> dict[bytes, bytes]:
        if not self._complete:
            reply = self._session.ask(_ASK_MAP, self._index)
            pairs = [(reply.block(), reply.block()) for _ in range(reply.take(_COUNT)[0])]
            self._known = {**dict(pairs), **self._known}
            self._complete = True
        return {name: value for name, value in self._known.items() if value is not None}

    def exists(self) -> bool:
        """Tell whether the key has entries."""
        return bool(self._all())

    def getValue(self, key: Any) -> T.Row | None:  # noqa: ANN401, N802
        """Give the value of an entry, or None."""
        value = self._entry(key)
        return None if value is None else self._rows.decode(value)

    def containsKey(self, key: Any) -> bool:  # noqa: ANN401, N802
        """Tell whether there is such an entry."""
        return self._entry(key) is not None

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: ANN401, N802
        """Set an entry."""
        name, data = self._keys.encode(key), self._rows.encode(value)
        self._known[name] = data
        self._session.change(_MAP_PUT, self._index, block(name) + block(data))

    def iterator(self) -> Iterator[tuple[T.Row, T.Row]]:
        """Give all entries."""
        pairs = list(self._all().items())
        return ((self._keys.decode(name), self._rows.decode(value)) for name, value in pairs)

    def keys(self) -> Iterator[T.Row]:
        """Give the keys of all entries."""
        return map(self._keys.decode, list(self._all()))

    def values(self) -> Iterator[T.Row]:
        """Give the values of all entries."""
        return map(self._rows.decode, list(self._all().values()))

    def removeKey(self, key: Any) -> None:  # noqa: ANN401, N802
        """Remove an entry."""
        name = self._keys.encode(key)
        self._known[name] = None
        self._session.change(_MAP_REMOVE, self._index, block(name))

    def clear(self) -> None:
        """Remove all entries."""
        self._known, self._complete = {}, True
        self._session.change(_MAP_CLEAR, self._index)


_KINDS: dict[str, type[Variable]] = {"value": Value, "list": List, "map": Map}


class Handle:
    """What ``init`` gets: PySpark's ``StatefulProcessorHandle``, over the bridge."""

    def __init__(self, session: Session, variables: Sequence[dict[str, Any]]) -> None:
        self._session = session
        self._specs = {spec["name"]: (index, spec) for index, spec in enumerate(variables)}
        self.variables: list[Variable | None] = [None] * len(variables)
        self.timers = Timers(session)

    @property
    def kept(self) -> list[Kept]:
        """Everything that a call may change."""
        return [*(v for v in self.variables if v is not None), self.timers]

    def _variable(self, kind: str, name: str) -> Any:  # noqa: ANN401  (one of three classes)
        index, spec = self._specs.get(name, (-1, {"kind": None}))
        if spec["kind"] != kind:
            raise RuntimeError(
                f"init asks for the {kind} state {name!r}, which it did not when the pipeline was "
                "built: it must ask for the same variables each time"
            )
        made = _KINDS[kind](self._session, index, spec)
        made.forget()
        self.variables[index] = made
        return made

    def getValueState(self, stateName: str, *_: Any, **__: Any) -> Value:  # noqa: ANN401, N802, N803
        """Give a value state."""
        return self._variable("value", stateName)  # type: ignore[no-any-return]

    def getListState(self, stateName: str, *_: Any, **__: Any) -> List:  # noqa: ANN401, N802, N803
        """Give a list state."""
        return self._variable("list", stateName)  # type: ignore[no-any-return]

    def getMapState(self, stateName: str, *_: Any, **__: Any) -> Map:  # noqa: ANN401, N802, N803
        """Give a map state."""
        return self._variable("map", stateName)  # type: ignore[no-any-return]

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803
        """Do nothing: the JVM removed it when it opened the store."""

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        """Set a timer for the key."""
        self.timers.change(_TIMER_SET, expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        """Remove a timer of the key."""
        self.timers.change(_TIMER_DELETE, expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:  # noqa: N802
        """Give the key's timers."""
        return self.timers.all()


class Processing:
    """A stateful processor at work."""

    def __init__(
        self,
        spec: dict[str, Any],
        processor: Any,  # noqa: ANN401  (the user's StatefulProcessor)
        memory: Any,  # noqa: ANN401  (serve.Memory)
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
        self._kept = self._handle.kept

    def close(self) -> None:
        """Let the processor close what it opened."""
        self._processor.close()

    def answer(self, wire: Wire, message: bytes) -> None:
        """Answer one call."""
        call = Blocks(message)
        kind, now, watermark = call.take(_CALL)
        self._session.wire = wire
        self._session.key = 0
        self._input.origin = None
        times = TimerValues(now, watermark)
        if kind == _SEVERAL:
            self._several(wire, call, times)
            return
        self._load(call)
        key, _ = self._decode_key(call.block(), 0)
        if kind == _ROWS:
            rows = [call.block() for _ in range(call.take(_COUNT)[0])]
            outputs, failures = self._rows(key, rows, times)
        elif kind == _TIMER:
            expiry = ExpiredTimerInfo(call.take(_TIME)[0])
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
        """Handle rows of several keys, one by one and each for itself."""
        keys, states = [], []
        for _ in range(call.take(_COUNT)[0]):
            self._load(call)
            states.append(self._loaded)
            keys.append(self._decode_key(call.block(), 0)[0])
        parts = []
        said = time.monotonic_ns()
        handle = self._processor.handleInputRows
        for _ in range(call.take(_COUNT)[0]):
            (place,) = call.take(_COUNT)
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
            said = self._say_so(wire, said)
        self._session.wire = None
        wire.send(_DONE, _FLAG.pack(self._memory.exhausted()), *parts)

    @staticmethod
    def _say_so(wire: Wire, said: int) -> int:
        """Tell the JVM now and then that calls end: its limit is for one of them."""
        now = time.monotonic_ns()
        if now - said < _SILENT_NS:
            return said
        wire.send(_WORKING)
        return now

    def _load(self, call: Blocks) -> None:
        """Begin with a key: its values came with the call."""
        self._session.updates = []
        for kept in self._kept:
            kept.forget()
        for index in self._values:
            data = call.block() if call.take(_FLAG)[0] else None
            variable = self._handle.variables[index]
            if isinstance(variable, Value):
                variable.load(data)
        self._loaded = self._saved()

    def _done(self, wire: Wire, outputs: list[bytes], failures: list[tuple[int, str]]) -> None:
        self._session.wire = None
        self._memory.answered()
        wire.send(_DONE, _FLAG.pack(self._memory.exhausted()), self._settled(outputs, failures))

    def _settled(self, outputs: list[bytes], failures: list[tuple[int, str]]) -> bytes:
        """Write what came of a call: what failed, what changed, what comes out."""
        told = [_COUNT.pack(i) + block(text.encode(errors="replace")) for i, text in failures]
        updates = self._session.updates
        return b"".join(
            (_COUNT.pack(len(told)), *told, _COUNT.pack(len(updates)), *updates, _blocks(outputs))
        )

    def _rows(
        self,
        key: Any,  # noqa: ANN401  (a tuple of any types)
        data: Sequence[bytes],
        times: TimerValues,
    ) -> tuple[list[bytes], list[tuple[int, str]]]:
        """Handle all rows in one call; if that raises, row by row, to find which."""
        handle = self._processor.handleInputRows
        outputs, failures = self._guarded(lambda: handle(key, self._input.read(data), times), 0)
        if not failures or len(data) == 1:
            return outputs, failures
        self._restore(self._loaded)
        outputs, failures = [], []
        said = time.monotonic_ns()
        for index, row in enumerate(data):
            before, mark = self._saved(), len(self._session.updates)
            call = functools.partial(handle, key, self._input.read([row]), times)
            made, failed = self._guarded(call, index, mark)
            if failed:
                self._restore(before)
            outputs += made
            failures += failed
            if self._session.wire is not None:
                said = self._say_so(self._session.wire, said)
        return outputs, failures

    def _guarded(
        self, call: Callable[[], Iterable[Any] | None], index: int, mark: int = 0
    ) -> tuple[list[bytes], list[tuple[int, str]]]:
        """Call, and forget its changes if it raises."""
        inputs, encode = self._input, self._output.encode
        try:
            return [encode(row, inputs.origin) for row in call() or ()], []
        except JvmGoneError:
            raise
        except Exception as error:  # noqa: BLE001  (the row's, not the worker's)
            self._memory.blame(error)
            del self._session.updates[mark:]
            return [], [(index, self._reason(self._name, error))]

    def _saved(self) -> list[Any]:
        return [kept.saved() for kept in self._kept]

    def _restore(self, saved: list[Any]) -> None:
        for kept, past in zip(self._kept, saved, strict=True):
            kept.restore(past)


def _blocks(items: Sequence[bytes]) -> bytes:
    return b"".join(itertools.chain([_COUNT.pack(len(items))], map(block, items)))
