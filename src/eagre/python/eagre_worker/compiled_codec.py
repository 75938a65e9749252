"""Compiles the codec of a row to two plain functions, because it runs once for every row."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from .layout import TEXTS, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .layout import Codec, Decode, Encode


def compiled(kind: T.StructType, fields: Sequence[Codec], *, rows: bool) -> tuple[Decode, Encode]:
    """Compile the functions that read and write a row of these fields."""
    layout = struct.Struct("<" + _null_format(len(fields)) + _formats(fields))
    scope: dict[str, Any] = {"unpack": layout.unpack_from, "pack": layout.pack, "Row": T.Row}
    scope |= {"names": kind.names, "new": tuple.__new__, "from_bytes": int.from_bytes}
    scope |= {f"d{i}": field.decode for i, field in enumerate(fields)}
    scope |= {f"e{i}": field.encode for i, field in enumerate(fields)}
    exec(_decoder(fields, layout.size, rows=rows) + _encoder(fields), scope)  # noqa: S102
    return scope["decode"], _explained(scope["encode"], kind, fields)


def _null_format(count: int) -> str:
    return "" if count == 0 else "B" if count <= 8 else f"{(count + 7) // 8}s"  # noqa: PLR2004


def _formats(fields: Sequence[Codec]) -> str:
    return "".join("I" if field.format is None else field.format for field in fields)


def _decoder(fields: Sequence[Codec], size: int, *, rows: bool) -> str:
    """Return the source of ``decode``: one ``unpack`` for the fixed part, then the rest."""
    names = [f"v{i}" for i, field in enumerate(fields) if field.format != ""]
    taken = ", ".join(["nulls", *names]) if fields else ""
    lines = ["def decode(buf, pos):"]
    if fields:
        lines.append(f"    {taken}, = unpack(buf, pos)")
        lines.append(f"    pos += {size}")
    if len(fields) > 8:  # noqa: PLR2004
        lines.append("    nulls = from_bytes(nulls, 'little')")
    for i, field in enumerate(fields):
        lines += _read_field(i, field)
    values = "".join(f"v{i}, " for i in range(len(fields)))
    if not rows:
        return "\n".join([*lines, f"    return ({values}), pos\n\n"])
    lines += [f"    row = new(Row, ({values}))", "    row.__fields__ = names"]
    return "\n".join([*lines, "    return row, pos\n\n"])


def _read_field(i: int, field: Codec) -> list[str]:
    null = f"nulls & {1 << i}"
    if field.format == "":
        return [f"    v{i} = None"]
    if field.format is None:
        raw = f"buf[pos:pos + v{i}]"
        value = raw if field.decode is None else f"d{i}({raw})"
        if isinstance(field.type, TEXTS):
            value = f"{raw}.decode(errors='replace')"
        return [
            f"    if {null}:",
            f"        v{i} = None",
            "    else:",
            f"        end = pos + v{i}",
            f"        v{i} = {value}",
            "        pos = end",
        ]
    if field.decode is None:
        return [f"    if {null}: v{i} = None"]
    return [f"    v{i} = None if {null} else d{i}(v{i})"]


def _encoder(fields: Sequence[Codec]) -> str:
    if not fields:
        return "def encode(values):\n    return b''\n"
    names = "".join(f"v{i}, " for i in range(len(fields)))
    lines = ["def encode(values):", f"    {names}= values", "    nulls = 0"]
    for i, field in enumerate(fields):
        lines += _write_field(i, field)
    if len(fields) > 8:  # noqa: PLR2004
        lines.append(f"    nulls = nulls.to_bytes({(len(fields) + 7) // 8}, 'little')")
    packed = [
        f"len(v{i})" if field.format is None else f"v{i}"
        for i, field in enumerate(fields)
        if field.format != ""
    ]
    rest = "".join(f" + v{i}" for i, field in enumerate(fields) if field.format is None)
    return "\n".join([*lines, f"    return pack({', '.join(['nulls', *packed])}){rest}\n"])


def _write_field(i: int, field: Codec) -> list[str]:
    empty = "b''" if field.format is None else "0"
    lines = [f"    if v{i} is None:", f"        nulls |= {1 << i}", f"        v{i} = {empty}"]
    if field.format == "":
        return [*lines, "    else:", f"        e{i}(v{i})"]
    if field.encode is not None:
        lines += ["    else:", f"        v{i} = e{i}(v{i})"]
    return lines


def _explained(encode: Encode, kind: T.StructType, fields: Sequence[Codec]) -> Encode:
    """Wrap ``encode`` so that an invalid value raises an error that names its field."""

    def checked(values: Any) -> bytes:  # noqa: ANN401  (any result of the user's function)
        try:
            return encode(values)
        except Exception as error:  # noqa: BLE001  (raised again with an explanation)
            raise _explanation(values, kind, fields) or error from None

    return checked


def _explanation(
    values: Any,  # noqa: ANN401  (as above)
    kind: T.StructType,
    fields: Sequence[Codec],
) -> WrongTypeError | None:
    if not isinstance(values, (tuple, list)) or len(values) != len(fields):
        return WrongTypeError(f"{_shown(values)} is not a row of type {kind.simpleString()}")
    for field, name, value in zip(fields, kind.names, values, strict=True):
        if value is None:
            continue
        try:
            raw = field.encode(value) if field.encode else value
            if field.format:
                struct.pack("<" + field.format, raw)
            elif field.format is None:
                b"".join([raw])
        except Exception as error:  # noqa: BLE001  (reported below)
            detail = f" ({error})" if isinstance(error, WrongTypeError) else ""
            return WrongTypeError(
                f"{name} must be {field.type.simpleString()} and is {_shown(value)}{detail}"
            )
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"  # noqa: PLR2004
