"""Runs a sink: writes rows in batches, tries again, and reports the rows that it refuses."""

from __future__ import annotations

import logging
import struct
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from .codec import row_codec
from .wire import COUNT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .serve import MemoryLimit
    from .wire import Wire

log = logging.getLogger("eagre")

_HEAD = struct.Struct("<IB")
_REFUSED, _FAILED = b"\1", b"\2"
"""The outcomes of a row that is not written; a written row returns the encoded value true."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_QUARTER = 4


class SinkRunner:
    """The user's sink in a worker."""

    def __init__(
        self,
        spec: dict[str, Any],
        sink: Any,  # noqa: ANN401  (the user's)
        memory: MemoryLimit,
        reason: Callable[..., str],
    ) -> None:
        self._sink = sink
        self._name = spec["names"][0]
        self._rows = SinkRows(spec)
        self._size = spec["batch_rows"]
        self._retry_s = spec["retry_ms"] / 1000
        self._longest_pause = min(_LONGEST_PAUSE, spec["timeout_ms"] / 1000 / _QUARTER)
        self._memory = memory
        self._reason = reason
        self._opened = False
        self._encode = row_codec(T.StructType.fromJson(spec["returns"]))[1]

    def close(self) -> None:
        """Close the sink; what it raises only goes to the log."""
        if not self._opened:
            return
        self._opened = False
        try:
            self._sink.close()
        except Exception as error:  # noqa: BLE001  (the user's; nothing depends on it)
            log.warning("%s while it closed", self._reason(self._name, error))

    def answer(self, wire: Wire, frame: bytes) -> None:
        """Write the rows of a frame, and answer after each batch."""
        (count,) = COUNT.unpack_from(frame)
        if count == 0:
            wire.send(_HEAD.pack(0, 0))
            return
        rows = self._rows.decode(frame, COUNT.size, count)
        for start in range(0, count, self._size):
            batch = rows[start : start + self._size]
            answers = self._write(wire, batch)
            retire = start + self._size >= count and self._memory.exhausted()
            wire.send(_HEAD.pack(len(answers), retire), *answers)

    def _write(self, wire: Wire, batch: Sequence[Any]) -> list[bytes]:
        """Write a batch until the sink acknowledges or refuses each of its rows, or time is up."""
        refused = {n: row.reason for n, row in enumerate(batch) if isinstance(row, Unreadable)}
        began = time.monotonic()
        pause = _FIRST_PAUSE
        while len(refused) < len(batch):
            try:
                self._attempt(batch, refused)
                break
            except Exception as error:  # noqa: BLE001  (the user's: tried again)
                if getattr(error, "refused", False) and _refuse(batch, [error], refused):
                    continue
                self._memory.blame(error)
                text = self._reason(self._name, error)
                if time.monotonic() - began >= self._retry_s:
                    return [_FAILED + _text(f"{text}; it was tried for {self._retry_s:g} s")]
                log.warning("%s; the rows are written again", text)
                self.close()
                self._wait(wire, _asked(error) or pause)
                pause = min(pause * 2, self._longest_pause)
        written = b"\0" + self._encode((True,))
        return [
            _REFUSED + _text(f"{self._name} refuses the row: {refused[place]}")
            if place in refused
            else written
            for place in range(len(batch))
        ]

    def _wait(self, wire: Wire, seconds: float) -> None:
        """Wait before the next attempt; each message starts the time limit of the worker again."""
        end = time.monotonic() + min(seconds, self._retry_s)
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self._longest_pause))
            wire.send(_HEAD.pack(0, 0))

    def _attempt(self, batch: Sequence[Any], refused: dict[int, str]) -> None:
        if not self._opened:
            self._sink.open()
            self._opened = True
        rest = [row for place, row in enumerate(batch) if place not in refused]
        returned = self._sink.write(rest)
        self._memory.answered()
        for item in returned or ():
            if not getattr(item, "refused", False) or not _refuse(batch, [item], refused):
                raise TypeError(f"write returned {item!r}, which is no Refused(row, reason)")


def _refuse(batch: Sequence[Any], items: Sequence[Any], refused: dict[int, str]) -> bool:
    """Record refused rows; return whether each of them is a row of the batch."""
    for item in items:
        places = [n for n, row in enumerate(batch) if row is item.row and n not in refused]
        if not places:
            return False
        refused[places[0]] = str(item.reason)
    return True


def _asked(error: Exception) -> float | None:
    """Return the pause that an exception asks for."""
    seconds = getattr(error, "retry_after", None)
    return seconds if isinstance(seconds, (int, float)) and seconds > 0 else None


def _text(text: str) -> bytes:
    encoded = text.encode(errors="replace")
    return COUNT.pack(len(encoded)) + encoded


class Unreadable:
    """A row with a value that Python cannot represent."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class SinkRows:
    """Decodes rows, with their position and their id."""

    def __init__(self, spec: dict[str, Any]) -> None:
        kind = T.StructType.fromJson(spec["arguments"][0])
        raw = T.StructType([T.StructField("row", T.BinaryType()), *kind.fields[1:]])
        self._decode = row_codec(raw, rows=False)[0]
        self._decode_row = row_codec(kind.fields[0].dataType)[0]  # type: ignore[arg-type]
        self._pipeline = spec["pipeline"]

    def decode(self, frame: bytes, pos: int, count: int) -> list[Any]:
        """Return the rows of a frame."""
        rows = []
        for _ in range(count):
            (data, *position), pos = self._decode(frame, pos)
            try:
                row = self._decode_row(data, 0)[0]
            except Exception as error:  # noqa: BLE001  (a timestamp after the year 9999, for example)
                rows.append(Unreadable(f"{type(error).__name__}: {error}"))
                continue
            source, ordinal = (*position, None, None)[:2]
            row.__dict__["_source"] = source if position else getattr(row, "_source", None)
            row.__dict__["_id"] = None if ordinal is None else self._id(source, ordinal)
            rows.append(row)
        return rows

    def _id(self, source: Any, ordinal: int) -> str:  # noqa: ANN401  (a Row)
        return f"{self._pipeline}/{source.topic}/{source.partition}/{source.offset}/{ordinal}"
