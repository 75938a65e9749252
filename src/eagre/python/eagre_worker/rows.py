"""Rows in the worker: state rows, input rows and output rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from .codec import field_values, row_codec
from .layout import WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOURCE = "_source"


class Rows:
    """The codec of one schema: decodes Rows, and encodes tuples, lists, dicts and Rows."""

    def __init__(self, schema: dict[str, Any]) -> None:
        kind = T.StructType.fromJson(schema)
        self._decode, self._encode = row_codec(kind)
        self._fields = field_values(kind)

    def decode(self, data: bytes) -> T.Row:
        """Decode a row."""
        return self._decode(data, 0)[0]  # type: ignore[no-any-return]

    def encode(self, value: Any) -> bytes:  # noqa: ANN401  (checked here)
        """Encode a row."""
        if value is None:
            raise WrongTypeError("None is not a row; use clear() to remove a state")
        return self._encode(self._fields(value))


class Inputs:
    """Input rows; their provenance stays encoded, to be copied to the outputs."""

    def __init__(self, schema: dict[str, Any]) -> None:
        kind = T.StructType.fromJson(schema)
        self._names = kind.names
        self._place = kind.names.index(SOURCE) if SOURCE in kind.names else None
        self._decode = row_codec(_with_raw_source(kind), rows=False)[0]
        source = kind[SOURCE].dataType if SOURCE in kind.names else None
        self._source = row_codec(source)[0] if isinstance(source, T.StructType) else None
        self.provenance: bytes | None = None
        """The provenance of the last row, encoded."""

    def read(self, items: Iterable[bytes]) -> Iterator[T.Row]:
        """Yield rows lazily."""
        place, source = self._place, self._source
        for item in items:
            values = self._decode(item, 0)[0]
            if place is not None and source is not None and values[place] is not None:
                self.provenance = values[place]
                values = (*values[:place], source(values[place], 0)[0], *values[place + 1 :])
            row = tuple.__new__(T.Row, values)
            row.__fields__ = self._names
            yield row


class Outputs:
    """Output rows, followed by the unchanged provenance of their input row."""

    def __init__(self, schema: dict[str, Any], *, carries_source: bool) -> None:
        kind = T.StructType.fromJson(schema)
        columns = T.StructType(kind.fields[:-1]) if carries_source else kind
        self._fields = field_values(columns)
        self._encode = row_codec(_with_raw_source(kind) if carries_source else kind)[1]
        self._carries = carries_source

    def encode(self, value: Any, source: bytes | None) -> bytes:  # noqa: ANN401  (checked here)
        """Encode a row; a Row with field names is matched by name, as in PySpark."""
        if isinstance(value, T.Row) and "__fields__" in value.__dict__:
            value = value.asDict()
        fields = self._fields(value)
        return self._encode((*fields, source) if self._carries else fields)


def _with_raw_source(kind: T.StructType) -> T.StructType:
    """Treat the provenance of a row as bytes: a nested struct is a length-prefixed block."""
    return T.StructType(
        [T.StructField(f.name, T.BinaryType() if f.name == SOURCE else f.dataType) for f in kind]
    )
