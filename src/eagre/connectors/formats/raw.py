"""Values that are not parsed: the single column ``value``, as text or as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from eagre.connectors.formats.base import Format
from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


class Bytes(Format):
    """The value as bytes."""

    name: ClassVar = "bytes"
    schema: ClassVar = "value BINARY"
    _type: ClassVar[str] = "binary"

    def parse(self, value: Column, schema: StructType) -> Column:  # noqa: ARG002
        """Return the value as the column ``value``."""
        from pyspark.sql import functions as F

        return F.struct(value.cast(self._type).alias("value"))

    def encode(self, rows: DataFrame, columns: Sequence[str]) -> Column:
        """Return the column ``value``."""
        if "value" not in columns:
            raise SettingsError(
                "COLUMN_MISSING",
                f"a sink of format {self.name!r} writes the column 'value', and the pipeline "
                f"returns only: {', '.join(rows.columns)}.",
                hint="add a column 'value' in the pipeline function.",
            )
        return rows["value"].cast(self._type)


class String(Bytes):
    """The value as UTF-8 text."""

    name: ClassVar = "string"
    schema: ClassVar = "value STRING"
    _type: ClassVar = "string"

    def decode(self, value: bytes | None) -> str | None:
        """Return the text."""
        return None if value is None else value.decode()
