"""What a codec of one type is, and what is raised where there is none or a value does not fit."""

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
