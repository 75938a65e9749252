"""The codec of one type, and its errors."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

if TYPE_CHECKING:
    from collections.abc import Callable

    Decode = Callable[[bytes, int], tuple[Any, int]]
    Encode = Callable[[Any], bytes]

TEXTS = (T.StringType, T.CharType, T.VarcharType)
LENGTH = struct.Struct("<I")


class WrongTypeError(TypeError):
    """A value does not match its declared type."""


class NoCodecError(TypeError):
    """A type has no equivalent in Python."""


@dataclass(frozen=True)
class Codec:
    """The codec of one type.

    Attributes:
        type: The type.
        format: Its ``struct`` format character; None for variable length; empty for void.
        decode: Converts the result of ``struct``, or bytes, to the value; None for the identity.
        encode: The inverse of ``decode``.
    """

    type: T.DataType
    format: str | None
    decode: Callable[[Any], Any] | None = None
    encode: Callable[[Any], Any] | None = None
