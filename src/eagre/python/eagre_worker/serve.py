"""One worker: performs the handshake, then answers requests until the connection closes."""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import types as T

from . import log
from .codec import row_codec
from .sink import SinkRunner
from .state import ProcessorRunner
from .wire import COUNT, Blocks, JvmGoneError, Wire

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence

_HEAD = struct.Struct("<IB")
_OK, _RAISED = b"\0", b"\1"
_FLUSH_NS = 1_000_000
"""Answers are sent after this time, even if the function has rows left."""
_PAGE = resource.getpagesize()
_LOOK_NS = 100_000_000
_LONGEST = 1000
"""The maximum length of an exception's message."""
_HARD = 2
"""The factor by which one call may exceed the memory limit before it gets a MemoryError."""


def serve(connection: socket.socket) -> None:
    """Answer the requests of JVM tasks."""
    wire = Wire(connection)
    hello = Blocks(wire.receive())
    spec = json.loads(hello.block())
    log.redirect(spec["pipeline"])
    sys.path[:0] = [entry for entry in spec["path"] if entry not in sys.path]
    memory = MemoryLimit(spec["memory_mb"])
    try:
        task = _task(spec, [cloudpickle.loads(hello.block()) for _ in spec["names"]], memory)
    except Exception as error:  # noqa: BLE001  (reported to the JVM)
        wire.send(_RAISED, _pid(), reason(spec["names"][0], error).encode())
        return
    wire.send(_OK, _pid())
    try:
        while True:
            task.answer(wire, wire.receive())
    except (JvmGoneError, ExhaustedError):
        task.close()


def _pid() -> bytes:
    return struct.pack("<q", os.getpid())


def _task(spec: dict[str, Any], functions: Sequence[Any], memory: MemoryLimit) -> Any:  # noqa: ANN401
    if spec["kind"] == "state":
        return ProcessorRunner(spec, functions[0], memory, reason)
    if spec["kind"] == "sink":
        return SinkRunner(spec, functions[0], memory, reason)
    return RowFunctions(spec, functions, memory)


class ExhaustedError(Exception):
    """The worker is out of memory because of earlier rows: a new worker retries the row."""


class MemoryLimit:
    """The worker's memory, against its limit."""

    def __init__(self, limit_mb: int) -> None:
        self._limit = limit_mb << 20
        self._looked = 0
        self._over = False
        self._used = False
        resource.setrlimit(resource.RLIMIT_DATA, (self._limit * _HARD, resource.RLIM_INFINITY))

    def exhausted(self) -> bool:
        """Return whether the worker should be replaced; measured at most ten times a second."""
        now = time.monotonic_ns()
        if now - self._looked > _LOOK_NS:
            self._looked = now
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self._over = pages * _PAGE > self._limit
        return self._over

    def answered(self) -> None:
        """Record that a row was processed: from now on, earlier rows may hold the memory."""
        self._used = True

    def blame(self, error: Exception) -> None:
        """Check whether earlier rows caused a ``MemoryError``.

        Raises:
            ExhaustedError: Memory ran out in a worker that had processed rows before.
        """
        if isinstance(error, MemoryError) and self._used:
            raise ExhaustedError from None


class RowFunctions:
    """Functions of a row: each gets its arguments, and the results of a row return together."""

    def __init__(
        self, spec: dict[str, Any], functions: Sequence[Callable[..., Any]], memory: MemoryLimit
    ) -> None:
        self._names = spec["names"]
        self._functions = [_all_of(f) for f in functions] if spec["kind"] == "flat" else functions
        self._memory = memory
        self._call = self._lists if spec["kind"] == "batch" else self._rows
        arguments = [T.StructType.fromJson(a) for a in spec["arguments"]]
        self._decoders = [row_codec(kind, rows=False)[0] for kind in arguments]
        returned = T.StructType.fromJson(spec["returns"])
        self._encode = row_codec(returned)[1]
        self._alone = len(functions) == 1

    def close(self) -> None:
        """Do nothing: functions hold no resources."""

    def answer(self, wire: Wire, frame: bytes) -> None:
        """Answer a frame of rows, in several messages if it takes long."""
        (count,) = COUNT.unpack_from(frame)
        if count == 0:
            wire.send(_HEAD.pack(0, 0))
            return
        parts: list[bytes] = []
        left = count
        sent = time.monotonic_ns()
        try:
            for part in self._call(frame, count):
                parts.append(part)
                left -= 1
                now = time.monotonic_ns()
                if left and now - sent > _FLUSH_NS:
                    wire.send(_HEAD.pack(len(parts), 0), *parts)
                    parts, sent = [], now
        except ExhaustedError:
            wire.send(_HEAD.pack(len(parts), 0), *parts)
            raise
        wire.send(_HEAD.pack(len(parts), self._memory.exhausted()), *parts)

    def _rows(self, frame: bytes, count: int) -> Iterator[bytes]:
        pos = COUNT.size
        encode = self._encode
        if self._alone:
            decode, function = self._decoders[0], self._functions[0]
            for _ in range(count):
                try:
                    arguments, pos = decode(frame, pos)
                except Exception as error:  # noqa: BLE001  (reported, or retried separately)
                    yield self._unreadable(count, error)
                    return
                try:
                    yield _OK + encode((function(*arguments),))
                except Exception as error:  # noqa: BLE001  (the row's, not the worker's)
                    yield self._raised(0, error)
                self._memory.answered()
            return
        for _ in range(count):
            calls = []
            for decode in self._decoders:
                arguments, pos = decode(frame, pos)
                calls.append(arguments)
            yield self._several(calls)
            self._memory.answered()

    def _several(self, calls: Sequence[Sequence[Any]]) -> bytes:
        results: list[Any] = []
        try:
            for function, arguments in zip(self._functions, calls, strict=True):
                results.append(function(*arguments))
            return _OK + self._encode(results)
        except Exception as error:  # noqa: BLE001  (as above)
            return self._raised(min(len(results), len(calls) - 1), error)

    def _lists(self, frame: bytes, count: int) -> Iterator[bytes]:
        """Call the function with all rows of the frame; row by row if it raises."""
        pos = COUNT.size
        decode, function = self._decoders[0], self._functions[0]
        rows = []
        try:
            for _ in range(count):
                arguments, pos = decode(frame, pos)
                rows.append(arguments)
        except Exception as error:  # noqa: BLE001  (reported below)
            yield self._unreadable(count, error)
            return
        try:
            answers = [_OK + self._encode((r,)) for r in _listed(function, rows)]
        except Exception:  # noqa: BLE001  (raised again below, row by row)
            answers = [self._single(function, row) for row in rows]
        yield from answers
        self._memory.answered()

    def _single(self, function: Callable[..., Any], row: Sequence[Any]) -> bytes:
        try:
            return _OK + self._encode((_listed(function, [row])[0],))
        except Exception as error:  # noqa: BLE001  (the row's, not the worker's)
            return self._raised(0, error)

    def _unreadable(self, count: int, error: Exception) -> bytes:
        """Report a row that cannot be decoded; in a frame of several, the next row is unknown.

        Raises:
            ExhaustedError: The frame has several rows: a new worker gets each of them separately.
        """
        if count > 1:
            raise ExhaustedError from error
        return self._raised(0, error)

    def _raised(self, index: int, error: Exception) -> bytes:
        self._memory.blame(error)
        text = reason(self._names[index], error).encode(errors="replace")
        return _RAISED + COUNT.pack(len(text)) + text


def _all_of(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Wrap a generator function so that it returns a list."""
    return lambda row: list(function(row) or ())


def _listed(function: Callable[..., Any], rows: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Call a function with one list per argument; return its list of results."""
    results = function(*(list(column) for column in zip(*rows, strict=True)))
    if not hasattr(results, "__len__"):
        results = list(results)
    if len(results) != len(rows):
        raise ValueError(f"it returned {len(results)} results for {len(rows)} rows")
    return list(results)


def reason(name: str, error: BaseException) -> str:
    """Describe the exception of a function, with the line in the user's code."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "eagre_worker" not in frame.filename and "/pyspark/" not in frame.filename
    ]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    text = str(error).strip().split("\n")[0][:_LONGEST]
    detail = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{name} raised {detail}{where}"
