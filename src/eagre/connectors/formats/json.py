"""JSON values: one object per record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from eagre.connectors.formats.base import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


class Json(Format):
    """A JSON object with a field per column; an encoded null is written, not omitted."""

    name: ClassVar = "json"

    def parse(self, value: Column, schema: StructType) -> Column:
        """Parse strictly: one field of the wrong type makes the whole record invalid."""
        from pyspark.sql import functions as F

        return F.from_json(value.cast("string"), schema, {"mode": "FAILFAST"})

    def encode(self, rows: DataFrame, columns: Sequence[str]) -> Column:
        """Encode the columns as a JSON object."""
        from pyspark.sql import functions as F

        struct = F.struct(*(rows[f"`{name}`"] for name in columns))
        return F.to_json(struct, {"ignoreNullFields": "false"})

    def decode(self, value: bytes | None) -> Any:  # noqa: ANN401
        """Return the object as a dict."""
        return None if value is None else json.loads(value)
