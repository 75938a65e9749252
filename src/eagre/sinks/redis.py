"""Hashes of Redis as sinks."""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from eagre.errors import SettingsError
from eagre.sinks.database import Database

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Redis(Database):
    """A hash of Redis for each row, with a field for each of its columns.

    >>> totals = Redis("totals:{card}", key="card", url="redis://127.0.0.1:6379/0")
    >>> totals.parts
    (['totals:', ''], ['card'])

    A null is a field that is not there; numbers and times are text, nested values JSON. The fields
    ``_eagre_source``, ``_eagre_offset``, ``_eagre_ordinal`` and ``_eagre_time`` hold the version;
    which of two is newer: see ``eagre.sinks.database``. User and password come from the file named
    in ``credentials``, else from ``REDIS_USERNAME`` and ``REDIS_PASSWORD``; the URL, if not given,
    from ``REDIS_URL``. ``rediss://`` speaks TLS.

    Attributes:
        template: The key of the hash, with the key columns in braces.
    """

    template: str

    SCHEMES: ClassVar = ("redis", "rediss")
    VARIABLE: ClassVar = "REDIS_URL"

    def __post_init__(self) -> None:
        super().__post_init__()
        if set(self.parts[1]) != set(self.keys):
            raise SettingsError(
                "KEY_TEMPLATE",
                f"the name in {self} must hold its key columns in braces, and no others: "
                f"{', '.join(self.keys)}.",
                hint='write for example eg.Redis("totals:{card}", key="card").',
            )

    def __str__(self) -> str:
        return f"eg.Redis({self.template!r})"

    @property
    def parts(self) -> tuple[list[str], list[str]]:
        """The words of the template, and the columns between them."""
        try:
            found = list(Formatter().parse(self.template))
        except ValueError:
            return [self.template], []
        columns = [column for _, column, _, _ in found if column is not None]
        words = [word for word, _, _, _ in found]
        return words + [""] * (len(columns) + 1 - len(words)), columns

    def _check_url(self, url: str) -> None:
        super()._check_url(url)
        database = urlsplit(url).path.strip("/")
        if database and not database.isdecimal():
            raise SettingsError(
                "URL_MALFORMED",
                f"the database in the url of {self} must be a number.",
                hint="write redis://host:port/0.",
            )

    def _spec(self, schema: StructType) -> dict[str, Any]:
        words, columns = self.parts
        return {
            "kind": "redis",
            "keys": [schema.names.index(name) for name in columns],
            "columns": schema.names,
            "template": words,
        }
