"""Sequences of one type as bytes: what arrays and maps are made of."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .layout import LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .layout import Codec


def elements(
    item: Codec,
) -> tuple[Callable[[bytes, int], list[Any]], Callable[[Sequence[Any]], bytes]]:
    """Give the functions that read and write a sequence of one type."""
    one = codec_of_one(item)

    def decode(data: bytes, pos: int) -> list[Any]:
        count, holes = struct.unpack_from("<IB", data, pos)
        pos += 5
        missing = 0
        if holes:
            width = (count + 7) // 8
            missing = int.from_bytes(data[pos : pos + width], "little")
            pos += width
        found: list[Any] = []
        for i in range(count):
            value, pos = one.read(data, pos, bool(missing >> i & 1))
            found.append(value)
        return found

    def encode(values: Sequence[Any]) -> bytes:
        missing = sum(1 << i for i, value in enumerate(values) if value is None)
        head = struct.pack("<IB", len(values), 1 if missing else 0)
        holes = missing.to_bytes((len(values) + 7) // 8, "little") if missing else b""
        return head + holes + b"".join(map(one.write, values))

    return decode, encode


@dataclass(frozen=True)
class One:
    """How one element of a sequence is read and written."""

    read: Callable[[bytes, int, bool], tuple[Any, int]]
    write: Callable[[Any], bytes]


def codec_of_one(item: Codec) -> One:
    """Give the functions for one element: of fixed width, or behind its length."""
    decode, encode = item.decode, item.encode
    layout = LENGTH if item.format is None else struct.Struct("<" + item.format)

    def read(data: bytes, pos: int, missing: bool) -> tuple[Any, int]:  # noqa: FBT001
        start = pos + layout.size
        end = start + layout.unpack_from(data, pos)[0] if item.format is None else start
        if missing or item.format == "":
            return None, end
        raw: Any = data[start:end] if item.format is None else layout.unpack_from(data, pos)[0]
        return decode(raw) if decode else raw, end

    def write(value: Any) -> bytes:  # noqa: ANN401  (whatever the user's function gave)
        if value is None:
            return bytes(layout.size)
        raw = encode(value) if encode else value
        return layout.pack(len(raw)) + raw if item.format is None else layout.pack(raw)

    return One(read, write)
