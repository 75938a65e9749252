"""A format parses a record's value into columns, and encodes columns as a value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


class Format(ABC):
    """The encoding of a record's value.

    Attributes:
        name: Its name in ``eg.Kafka(..., format=...)``.
        schema: The columns of every value, as DDL; None if the user declares them.
    """

    name: ClassVar[str]
    schema: ClassVar[str | None] = None

    @abstractmethod
    def parse(self, value: Column, schema: StructType) -> Column:
        """Return the columns of a binary value as a struct.

        For a value that cannot be parsed, the expression raises or returns null; the source's
        ``on_error`` then decides what happens to the record.
        """

    @abstractmethod
    def encode(self, rows: DataFrame, columns: Sequence[str]) -> Column:
        """Return the value of each row, as a string or binary column.

        Args:
            rows: The rows.
            columns: The columns to encode, without metadata such as ``_source`` and ``headers``.
        """

    def decode(self, value: bytes | None) -> Any:  # noqa: ANN401  (depends on the format)
        """Return a value in Python, for the test kit. Default: the bytes."""
        return value
