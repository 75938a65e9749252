"""The encoding of sequences of one type, for arrays and maps."""

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
    """Return the functions that read and write a sequence of one type."""
    element = element_codec(item)

    def decode(data: bytes, pos: int) -> list[Any]:
        count, holes = struct.unpack_from("<IB", data, pos)
        pos += 5
        missing = 0
        if holes:
            width = (count + 7) // 8
            missing = int.from_bytes(data[pos : pos + width], "little")
            pos += width
        values: list[Any] = []
        for i in range(count):
            value, pos = element.read(data, pos, bool(missing >> i & 1))
            values.append(value)
        return values

    def encode(values: Sequence[Any]) -> bytes:
        missing = sum(1 << i for i, value in enumerate(values) if value is None)
        head = struct.pack("<IB", len(values), 1 if missing else 0)
        holes = missing.to_bytes((len(values) + 7) // 8, "little") if missing else b""
        return head + holes + b"".join(map(element.write, values))

    return decode, encode


@dataclass(frozen=True)
class ElementCodec:
    """The functions that read and write one element of a sequence."""

    read: Callable[[bytes, int, bool], tuple[Any, int]]
    write: Callable[[Any], bytes]


def element_codec(item: Codec) -> ElementCodec:
    """Return the functions for one element: fixed width, or length-prefixed."""
    decode, encode = item.decode, item.encode
    layout = LENGTH if item.format is None else struct.Struct("<" + item.format)

    def read(data: bytes, pos: int, missing: bool) -> tuple[Any, int]:  # noqa: FBT001
        start = pos + layout.size
        end = start + layout.unpack_from(data, pos)[0] if item.format is None else start
        if missing or item.format == "":
            return None, end
        raw: Any = data[start:end] if item.format is None else layout.unpack_from(data, pos)[0]
        return decode(raw) if decode else raw, end

    def write(value: Any) -> bytes:  # noqa: ANN401  (any result of the user's function)
        if value is None:
            return bytes(layout.size)
        raw = encode(value) if encode else value
        return layout.pack(len(raw)) + raw if item.format is None else layout.pack(raw)

    return ElementCodec(read, write)
