"""The Redis sink: one hash per key."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from eagre.connectors.upsert import UpsertSink
from eagre.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


log = logging.getLogger("eagre")

_plain: set[str] = set()

ENCODED = frozenset("%0123456789ABCDEF")
"""The characters of a percent-encoded value: a separator of these alone would be ambiguous."""


@dataclass(frozen=True)
class Redis(UpsertSink):
    """A Redis hash for each key, with one field per column.

    >>> totals = Redis("totals:{card}", key="card", url="redis://127.0.0.1:6379/0")
    >>> totals.parts
    (['totals:', ''], ['card'])

    A null value has no field. Numbers and times are text, nested values are JSON. The fields
    ``_eagre_source``, ``_eagre_offset``, ``_eagre_ordinal`` and ``_eagre_time`` hold the version;
    ``eagre.connectors.upsert`` describes how it compares versions. User and password come from the
    ``credentials`` file, or else from ``REDIS_USERNAME`` and ``REDIS_PASSWORD``. The default URL is
    ``REDIS_URL``. ``rediss://`` uses TLS.

    With several key columns, ``%`` and the characters between the columns are percent-encoded in
    the values: a card ``x:y`` in ``"{card}:{day}"`` is ``x%3Ay``.

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
                f"the template of {self} must contain exactly its key columns in braces: "
                f"{', '.join(self.keys)}.",
                hint='write, for example, eg.Redis("totals:{card}", key="card").',
            )
        if any(not set(text) - ENCODED for text in self.parts[0][1:-1]):
            raise SettingsError(
                "KEY_TEMPLATE",
                f"the template of {self} must have a separator between its key columns, such as a "
                "colon: otherwise different keys could have the same name.",
                hint='write, for example, eg.Redis("totals:{card}:{day}", key=["card", "day"]).',
            )

    def __str__(self) -> str:
        return f"eg.Redis({self.template!r})"

    @property
    def parts(self) -> tuple[list[str], list[str]]:
        """The literal parts of the template, and the columns between them."""
        try:
            fields = list(Formatter().parse(self.template))
        except ValueError:
            return [self.template], []
        columns = [column for _, column, _, _ in fields if column is not None]
        literals = [literal for literal, _, _, _ in fields]
        return literals + [""] * (len(columns) + 1 - len(literals)), columns

    def _check_url(self, url: str) -> None:
        super()._check_url(url)
        database = urlsplit(url).path.strip("/")
        if database and not database.isdecimal():
            raise SettingsError(
                "URL_MALFORMED",
                f"the database in the url of {self} must be a number.",
                hint="write redis://host:port/0.",
            )

    def _warn_of_plain_connection(self) -> None:
        """Warn, once for each server, if login and rows are sent unencrypted."""
        url = self._remote
        if url is None or url.scheme != "redis" or url.hostname in _plain:
            return
        _plain.add(str(url.hostname))
        log.warning(
            "the connection to Redis at %s sends the login and all rows unencrypted; use rediss:// "
            "outside of a network you trust",
            url.hostname,
        )

    def _spec(self, schema: StructType) -> dict[str, Any]:
        self._warn_of_plain_connection()
        literals, columns = self.parts
        return {
            "class": "dev.eagre.connectors.redis.Redis",
            "keys": [schema.names.index(name) for name in columns],
            "columns": schema.names,
            "template": literals,
        }
