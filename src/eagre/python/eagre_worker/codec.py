"""Spark types as bytes and as Python values; ``Codec.java`` is the other half and has the format.

A row's codec is compiled to two plain functions, for it runs once for every row. Values become
what PySpark makes of them; what a type cannot hold is refused with ``WrongTypeError``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Decode = Callable[[bytes, int], tuple[Any, int]]
    Encode = Callable[[Any], bytes]

_FORMATS: dict[type[T.DataType], str] = {
    T.BooleanType: "?",
    T.ByteType: "b",
    T.ShortType: "h",
    T.IntegerType: "i",
    T.LongType: "q",
    T.FloatType: "f",
    T.DoubleType: "d",
    T.DateType: "i",
    T.TimestampType: "q",
    T.TimestampNTZType: "q",
    T.TimeType: "q",
    T.DayTimeIntervalType: "q",
}
_TEXTS = (T.StringType, T.CharType, T.VarcharType)
_EXACT = Context(prec=80, rounding=ROUND_HALF_UP)
_LENGTH = struct.Struct("<I")


class WrongTypeError(TypeError):
    """A value that its declared type cannot hold."""


class NoCodecError(TypeError):
    """A type that has no counterpart in Python."""


@dataclass(frozen=True)
class Codec:
    """One type.

    Attributes:
        type: It.
        format: Its letter in ``struct``; None where the length varies; empty for void.
        decode: From what ``struct`` gave, or from bytes, to the value; None if that is the value.
        encode: The way back.
    """

    type: T.DataType
    format: str | None
    decode: Callable[[Any], Any] | None = None
    encode: Callable[[Any], Any] | None = None


def codec(kind: T.DataType) -> Codec:
    """Give the codec of a type.

    Raises:
        NoCodecError: It has none.
    """
    for family, make in _MAKERS:
        if isinstance(kind, family):
            return make(kind)
    raise NoCodecError(f"{kind.simpleString()} has no counterpart in Python")


def row_codec(kind: T.StructType, *, rows: bool = True) -> tuple[Decode, Encode]:
    """Compile the functions that read and write a row.

    >>> decode, encode = row_codec(T.StructType().add("n", "integer").add("name", "string"))
    >>> decode(encode((7, None)), 0)
    (Row(n=7, name=None), 9)

    Args:
        kind: The row's type.
        rows: Read it as a ``Row``, not as a plain tuple.
    """
    fields = [codec(field.dataType) for field in kind.fields]
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
    """Write the source of ``decode``: one ``unpack`` for the fixed part, then the rest in order."""
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
        if isinstance(field.type, _TEXTS):
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
    """Turn whatever an unfit value raised into a sentence about the field that it stands in."""

    def checked(values: Any) -> bytes:  # noqa: ANN401  (whatever the user's function gave)
        try:
            return encode(values)
        except Exception as error:  # noqa: BLE001  (told in other words)
            raise _explanation(values, kind, fields) or error from None

    return checked


def _explanation(
    values: Any,  # noqa: ANN401  (as above)
    kind: T.StructType,
    fields: Sequence[Codec],
) -> WrongTypeError | None:
    if not isinstance(values, (tuple, list)) or len(values) != len(fields):
        return WrongTypeError(f"{_shown(values)} is no row of {kind.simpleString()}")
    for field, name, value in zip(fields, kind.names, values, strict=True):
        if value is None:
            continue
        try:
            raw = field.encode(value) if field.encode else value
            if field.format:
                struct.pack("<" + field.format, raw)
            elif field.format is None:
                b"".join([raw])
        except Exception as error:  # noqa: BLE001  (whatever it was, it is told)
            detail = f" ({error})" if isinstance(error, WrongTypeError) else ""
            return WrongTypeError(
                f"{name} must be {field.type.simpleString()} and is {_shown(value)}{detail}"
            )
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"  # noqa: PLR2004


def _number(kind: T.DataType) -> Codec:
    return Codec(kind, _FORMATS[type(kind)], None, _flag if type(kind) is T.BooleanType else None)


def _flag(value: object) -> bool:
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise WrongTypeError("not a bool")


def _moment(kind: T.DataType) -> Codec:
    return Codec(kind, _FORMATS[type(kind)], kind.fromInternal, kind.toInternal)


def _text(kind: T.DataType) -> Codec:
    return Codec(kind, None, _decoded, str.encode)


def _decoded(data: bytes) -> str:
    """Read text as the JVM does: Spark's strings may hold bytes that are no UTF-8."""
    return data.decode(errors="replace")


def _binary(kind: T.DataType) -> Codec:
    return Codec(kind, None, None, _bytes)


def _bytes(value: Any) -> bytes:  # noqa: ANN401  (checked here)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise WrongTypeError("not bytes")


def _decimal(kind: T.DecimalType) -> Codec:
    scale, most = kind.scale, 10**kind.precision

    def decode(unscaled: int) -> Decimal:
        return _EXACT.scaleb(Decimal(unscaled), -scale)

    def encode(value: Any) -> int:  # noqa: ANN401  (checked here)
        if not isinstance(value, (Decimal, int)):
            raise WrongTypeError("not a Decimal")
        unscaled = int(_EXACT.to_integral_value(_EXACT.scaleb(Decimal(value), scale)))
        if not -most < unscaled < most:
            raise WrongTypeError("too many digits")
        return unscaled

    if kind.precision <= 18:  # noqa: PLR2004  (what fits into 64 bits)
        return Codec(kind, "q", decode, encode)
    return Codec(
        kind,
        None,
        lambda data: decode(int.from_bytes(data, "big", signed=True)),
        lambda value: _signed(encode(value)),
    )


def _signed(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _void(kind: T.DataType) -> Codec:
    def refuse(_: object) -> None:
        raise WrongTypeError("only None is of type void")

    return Codec(kind, "", None, refuse)


def _struct(kind: T.StructType) -> Codec:
    decode, encode = row_codec(kind)
    fields = field_values(kind)
    return Codec(kind, None, lambda data: decode(data, 0)[0], lambda value: encode(fields(value)))


def field_values(kind: T.StructType) -> Callable[[Any], Sequence[Any]]:
    """Give a function that finds a struct's fields in a Row, tuple, list, dict or object."""
    names, count = kind.names, len(kind.names)

    def fields(value: Any) -> Sequence[Any]:  # noqa: ANN401  (checked here)
        if isinstance(value, (tuple, list)):
            if len(value) != count:
                raise WrongTypeError(f"{len(value)} fields where {count} are declared")
            if isinstance(value, T.Row) and value.__dict__.get("__from_dict__"):
                return [value[name] for name in names]
            return value
        known = value if isinstance(value, dict) else getattr(value, "__dict__", None)
        if known is None:
            raise WrongTypeError("not a Row, tuple, list or dict")
        return [known.get(name) for name in names]

    return fields


def _array(kind: T.ArrayType) -> Codec:
    decode, encode = elements(codec(kind.elementType))
    return Codec(kind, None, lambda data: decode(data, 0), lambda value: encode(_listed(value)))


def _listed(value: Any) -> Sequence[Any]:  # noqa: ANN401  (checked here)
    if isinstance(value, (list, tuple)):
        return value
    if hasattr(value, "tolist"):
        return list(value.tolist())
    raise WrongTypeError("not a list")


def _map(kind: T.MapType) -> Codec:
    read_keys, write_keys = elements(codec(kind.keyType))
    read_values, write_values = elements(codec(kind.valueType))

    def decode(data: bytes) -> dict[Any, Any]:
        split = 4 + _LENGTH.unpack_from(data)[0]
        return dict(zip(read_keys(data, 4), read_values(data, split), strict=True))

    def encode(value: Any) -> bytes:  # noqa: ANN401  (checked here)
        if not isinstance(value, dict):
            raise WrongTypeError("not a dict")
        if None in value:
            raise WrongTypeError("a key is None")
        keys = write_keys(list(value))
        return _LENGTH.pack(len(keys)) + keys + write_values(list(value.values()))

    return Codec(kind, None, decode, encode)


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
    layout = _LENGTH if item.format is None else struct.Struct("<" + item.format)

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


def _variant(kind: T.DataType) -> Codec:
    def decode(data: bytes) -> T.VariantVal:
        split = 4 + _LENGTH.unpack_from(data)[0]
        return T.VariantVal(data[4:split], data[split:])

    def encode(value: Any) -> bytes:  # noqa: ANN401  (checked here)
        if not isinstance(value, T.VariantVal):
            raise WrongTypeError("not a VariantVal")
        return _LENGTH.pack(len(value.value)) + value.value + value.metadata

    return Codec(kind, None, decode, encode)


def _own(kind: T.UserDefinedType) -> Codec:
    """User-defined types: the underlying type, with the user's conversions around it."""
    inner = codec(kind.sqlType())
    decode, encode = inner.decode, inner.encode
    return Codec(
        kind,
        inner.format,
        lambda raw: kind.deserialize(decode(raw) if decode else raw),
        lambda value: (encode or _same)(kind.serialize(value)),
    )


def _same(value: Any) -> Any:  # noqa: ANN401  (any value)
    return value


_MAKERS: tuple[tuple[Any, Callable[[Any], Codec]], ...] = (
    (T.UserDefinedType, _own),
    (_TEXTS, _text),
    (T.BinaryType, _binary),
    (T.DecimalType, _decimal),
    (T.StructType, _struct),
    (T.ArrayType, _array),
    (T.MapType, _map),
    (T.VariantType, _variant),
    (T.NullType, _void),
    ((T.DateType, T.TimestampType, T.TimestampNTZType, T.TimeType, T.DayTimeIntervalType), _moment),
    (tuple(_FORMATS), _number),
)
