"""Converts Spark values between bytes and Python; ``Codec.java`` is the JVM side.

``Codec.java`` describes the format. The codec of a row is compiled to two plain functions, because
it runs once for every row. Values have the same Python types as in PySpark. A value that does not
match its type raises ``WrongTypeError``.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from .compiled_codec import compiled
from .layout import LENGTH, TEXTS, Codec, NoCodecError, WrongTypeError
from .sequences import elements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .layout import Decode, Encode

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
_EXACT = Context(prec=80, rounding=ROUND_HALF_UP)


def codec(kind: T.DataType) -> Codec:
    """Return the codec of a type.

    Raises:
        NoCodecError: The type has none.
    """
    for family, make in _MAKERS:
        if isinstance(kind, family):
            return make(kind)
    raise NoCodecError(f"{kind.simpleString()} has no equivalent in Python")


def row_codec(kind: T.StructType, *, rows: bool = True) -> tuple[Decode, Encode]:
    """Compile the functions that read and write a row.

    >>> decode, encode = row_codec(T.StructType().add("n", "integer").add("name", "string"))
    >>> decode(encode((7, None)), 0)
    (Row(n=7, name=None), 9)

    Args:
        kind: The row's type.
        rows: Decode to a ``Row`` instead of a tuple.
    """
    fields = [codec(field.dataType) for field in kind.fields]
    return compiled(kind, fields, rows=rows)


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
    """Decode text like the JVM: Spark's strings may contain invalid UTF-8."""
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
    """Return a function that extracts a struct's fields from a Row, tuple, list, dict or object."""
    names, count = kind.names, len(kind.names)

    def fields(value: Any) -> Sequence[Any]:  # noqa: ANN401  (checked here)
        if isinstance(value, (tuple, list)):
            if len(value) != count:
                raise WrongTypeError(f"{len(value)} fields where {count} are declared")
            if isinstance(value, T.Row) and value.__dict__.get("__from_dict__"):
                return [value[name] for name in names]
            return value
        values = value if isinstance(value, dict) else getattr(value, "__dict__", None)
        if values is None:
            raise WrongTypeError("not a Row, tuple, list or dict")
        return [values.get(name) for name in names]

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
        split = 4 + LENGTH.unpack_from(data)[0]
        return dict(zip(read_keys(data, 4), read_values(data, split), strict=True))

    def encode(value: Any) -> bytes:  # noqa: ANN401  (checked here)
        if not isinstance(value, dict):
            raise WrongTypeError("not a dict")
        if None in value:
            raise WrongTypeError("a key is None")
        keys = write_keys(list(value))
        return LENGTH.pack(len(keys)) + keys + write_values(list(value.values()))

    return Codec(kind, None, decode, encode)


def _variant(kind: T.DataType) -> Codec:
    def decode(data: bytes) -> T.VariantVal:
        split = 4 + LENGTH.unpack_from(data)[0]
        return T.VariantVal(data[4:split], data[split:])

    def encode(value: Any) -> bytes:  # noqa: ANN401  (checked here)
        if not isinstance(value, T.VariantVal):
            raise WrongTypeError("not a VariantVal")
        return LENGTH.pack(len(value.value)) + value.value + value.metadata

    return Codec(kind, None, decode, encode)


def _user_defined(kind: T.UserDefinedType) -> Codec:
    """Return the codec of a user-defined type: its SQL type plus the user's conversions."""
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
    (T.UserDefinedType, _user_defined),
    (TEXTS, _text),
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
