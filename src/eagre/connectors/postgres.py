"""The PostgreSQL sink."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from eagre.connectors.upsert import JSON, UpsertSink
from eagre.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructField, StructType

log = logging.getLogger("eagre")

VERSION = {
    "_eagre_source": "text",
    "_eagre_offset": "bigint",
    "_eagre_ordinal": "integer",
    "_eagre_time": "timestamptz",
}
"""The columns of a row's version, which follow the pipeline's columns."""

TYPES = {
    "string": "text",
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "binary": "bytea",
}
"""PostgreSQL's types by Spark's; a decimal becomes ``numeric``, nested values ``jsonb``."""


VERIFYING = ("verify-ca", "verify-full")
_unverified: set[str] = set()


@dataclass(frozen=True)
class Postgres(UpsertSink):
    """A PostgreSQL table, upserted row by row.

    >>> totals = Postgres("totals", key="card", url="postgresql://127.0.0.1:5432/shop")
    >>> totals.keys
    ('card',)

    ``eagre.connectors.upsert`` describes how it compares versions. User and password come from the
    ``credentials`` file, or else from ``PGUSER`` and ``PGPASSWORD``, or ``PGPASSFILE``. The default
    URL is ``DATABASE_URL``.

    Attributes:
        table: The table, optionally with its schema: ``"shop.totals"``.
        create: Whether Eagre may create the table. An existing table needs the four columns of
            ``VERSION`` and a unique index on the key.
    """

    table: str
    create: bool = True

    SCHEMES: ClassVar = ("postgresql", "postgres")
    VARIABLE: ClassVar = "DATABASE_URL"

    def __post_init__(self) -> None:
        if not self.table or not all(self.table.split(".")):
            raise SettingsError("TABLE_NAME", "eg.Postgres needs the name of a table.")
        super().__post_init__()

    def __str__(self) -> str:
        return f"eg.Postgres({self.table!r})"

    def _check_url(self, url: str) -> None:
        super()._check_url(url)
        if not urlsplit(url).path.strip("/"):
            raise SettingsError(
                "URL_MALFORMED",
                f"the url of {self} names no database.",
                hint="write postgresql://host:port/database.",
            )

    def _warn_of_unverified_server(self) -> None:
        """Warn, once for each server, if its certificate is not verified."""
        url = self._remote
        if url is None or url.hostname in _unverified:
            return
        mode = _ssl_mode(dict(parse_qsl(url.query, keep_blank_values=True)))
        if mode in VERIFYING:
            return
        _unverified.add(str(url.hostname))
        log.warning(
            "the connection to PostgreSQL at %s does not verify its certificate (sslmode=%s): a "
            "machine in between could read the password and the rows; add ?sslmode=verify-full",
            url.hostname,
            mode,
        )

    def _spec(self, schema: StructType) -> dict[str, Any]:
        self._warn_of_unverified_server()
        columns = {field.name: self._type(field) for field in schema.fields}
        names = [*columns, *VERSION]
        return {
            "class": "dev.eagre.connectors.postgres.Postgres",
            "table": self.table,
            "keys": [schema.names.index(name) for name in self.keys],
            "create": self.create,
            "ddl": self._ddl({**columns, **VERSION}),
            "upsert": self._upsert(names, "?"),
            "check": self._upsert(names, "NULL"),
        }

    def _type(self, field: StructField) -> str:
        kind = field.dataType.simpleString()
        if kind.startswith("decimal"):
            return kind.replace("decimal", "numeric")
        if kind.startswith(JSON):
            return "jsonb"
        if kind not in TYPES:
            raise SettingsError(
                "COLUMN_TYPE",
                f"the column {field.name!r} has the type {kind}, which {self} does not support.",
                hint="cast it in the pipeline function, for example to a string.",
            )
        return TYPES[kind]

    def _ddl(self, columns: dict[str, str]) -> str:
        definitions = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        key = _listed(self.keys)
        return f"CREATE TABLE IF NOT EXISTS {self._table} ({definitions}, PRIMARY KEY ({key}))"

    def _upsert(self, names: Sequence[str], value: str) -> str:
        """Return the upsert statement; its condition compares versions."""
        changed = [name for name in names if name not in (*self.keys, "_eagre_time")]
        new, old = (
            {name: f"{row}.{quoted(name)}" for name in VERSION} for row in ("excluded", "existing")
        )
        source, offset, ordinal, time = VERSION
        return (  # names are quoted, values are bound
            f"INSERT INTO {self._table} AS existing ({_listed(names)}) "  # noqa: S608
            f"VALUES ({', '.join([value] * len(names))}) "
            f"ON CONFLICT ({_listed(self.keys)}) DO UPDATE SET "
            + "".join(f"{quoted(name)} = excluded.{quoted(name)}, " for name in changed)
            + f"{quoted(time)} = greatest({new[time]}, {old[time]}) "
            f"WHERE {old[source]} IS NULL OR CASE WHEN {new[source]} = {old[source]} "
            f"THEN ({new[offset]}, {new[ordinal]}) > ({old[offset]}, {old[ordinal]}) "
            f'ELSE ({new[time]}, {new[source]} COLLATE "C") > '
            f'({old[time]}, {old[source]} COLLATE "C") END'
        )

    @property
    def _table(self) -> str:
        return ".".join(quoted(part) for part in self.table.split("."))


def quoted(name: str) -> str:
    """Quote a name for SQL.

    >>> print(quoted('a "b" c'))
    "a ""b"" c"
    """
    return '"' + name.replace('"', '""') + '"'


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _ssl_mode(options: dict[str, str]) -> str:
    """Return how the driver verifies the server; ``ssl`` alone means that it does so in full.

    >>> _ssl_mode({}), _ssl_mode({"ssl": "true"}), _ssl_mode({"ssl": "true", "sslmode": "require"})
    ('prefer', 'verify-full', 'require')
    """
    implied = "verify-full" if options.get("ssl", "false") in ("", "true") else "prefer"
    return options.get("sslmode", implied)
