"""Rows of one schema in the worker: those of a state, those that come in, those that go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from .codec import field_values, row_codec
from .layout import WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOURCE = "_source"


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
