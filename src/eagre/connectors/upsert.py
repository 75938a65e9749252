"""Database sinks: they upsert rows, and ignore rows that are older than the stored ones.

The version of a row is the position of its Kafka record, ``_source``:

- Two versions from the same partition compare by offset. If one record produces several rows for
  a key, they apply in order.
- Between partitions the later Kafka timestamp wins, then the name of the topic and partition. With
  a keyed producer all records of a key are in one partition, so this never happens, and the table
  reflects the topic exactly. The stored time of a row never decreases, so that a replay changes
  nothing even if timestamps are out of order.

A row without ``_source``, such as the result of an aggregation, needs another version:
``F.max("_source").alias("_source")`` if each key stays in one partition, or ``version="n"`` for a
column that only increases. Of two rows with the same number, the first one wins.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import SplitResult, parse_qsl, urlsplit

from eagre.connectors.base import SOURCE, Capabilities, QueryContext, Sink
from eagre.errors import SettingsError
from eagre.jvm import gateway

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

JSON = ("array", "map", "struct", "variant")
"""Types that the sink writes as JSON."""

POSITION = ("topic", "partition", "offset", "timestamp")
"""The fields that ``_source`` needs to be a version."""

LOCAL = ("127.0.0.1", "localhost", "::1")
"""Servers on this machine, to which no network lies between."""

NUMBERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True, kw_only=True)
class UpsertSink(Sink):
    """The common part of the database sinks.

    Attributes:
        key: The column, or columns, that identify a row.
        url: The URL of the database, without a password. Default: an environment variable.
        version: A column that increases with each newer row. Default: ``_source``.
        credentials: A file with the lines ``user=...`` and ``password=...``; the tasks read it.
    """

    capabilities: ClassVar = Capabilities()
    SCHEMES: ClassVar[tuple[str, ...]]
    VARIABLE: ClassVar[str]

    key: str | Sequence[str]
    url: str | None = None
    version: str | None = None
    credentials: str | None = None

    def __post_init__(self) -> None:
        if not self.keys or not all(self.keys):
            raise SettingsError("KEY_MISSING", f"{self} needs a key column.")
        if self.url is not None:
            self._check_url(self.url)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns as a tuple."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    @property
    def _remote(self) -> SplitResult | None:
        """The URL of a database on another machine; None if it is malformed, as tasks report."""
        try:
            url = urlsplit(self.url or os.environ.get(self.VARIABLE, ""))
        except ValueError:
            return None
        return url if url.hostname and url.hostname not in LOCAL else None

    @property
    def guarantee(self) -> str:
        """What a reader of the table sees."""
        return "newest row of each key"

    def rows_written(self, spark: SparkSession, pipeline: str) -> int:
        """Return how many rows the databases accepted."""
        return gateway.upserted(spark, pipeline)

    def write_stream(self, rows: DataFrame, query: QueryContext) -> DataStreamWriter:
        """Prepare the write of a stream, in the update mode that real time requires.

        Raises:
            SettingsError: A key, the version or the URL is missing, or the type of a column is not
                supported.
        """
        if self.url is None and not os.environ.get(self.VARIABLE):
            raise SettingsError(
                "URL_MISSING",
                f"{self} has no url, and the environment variable {self.VARIABLE} is not set.",
                hint=f"pass url='{self.SCHEMES[0]}://host:port/...', or set {self.VARIABLE}.",
            )
        columns = rows.drop(SOURCE)
        self._check_keys(columns)
        version = self._version(rows, query.topic_ids)
        credentials = str(Path(self.credentials).absolute()) if self.credentials else None
        spec = {
            "pipeline": query.pipeline,
            "url": self.url,
            "credentials": credentials,
            **self._spec(columns.schema),
        }
        values = [_encoded(rows, name) for name in columns.columns]
        return gateway.upserts(rows.select(*values, *version), json.dumps(spec))

    @abstractmethod
    def _spec(self, schema: StructType) -> dict[str, Any]:
        """Return the companion's description of the write; ``keys`` are column indexes."""

    def _check_url(self, url: str) -> None:
        """Reject a malformed URL, or one that would expose a password in the plan."""
        try:
            parts = urlsplit(url)
            valid = parts.scheme in self.SCHEMES and parts.hostname and parts.port != 0
        except ValueError:
            raise self._malformed() from None
        if parts.password or any("password" in name for name, _ in parse_qsl(parts.query)):
            raise SettingsError(
                "PASSWORD_IN_URL",
                f"the url of {self} contains a password, which would appear in code and plans.",
                hint="remove it: set the password in the environment or in credentials='FILE'.",
            )
        if not valid:
            raise self._malformed()

    def _malformed(self) -> SettingsError:
        return SettingsError(
            "URL_MALFORMED", f"the url of {self} must be {self.SCHEMES[0]}://host:port/..."
        )

    def _check_keys(self, rows: DataFrame) -> None:
        types = dict(rows.dtypes)
        for name in self.keys:
            if name not in types:
                raise SettingsError(
                    "COLUMN_MISSING",
                    f"the key of {self} is the column {name!r}, and the pipeline returns only: "
                    f"{', '.join(rows.columns)}.",
                    hint=f"add a column {name!r} in the pipeline function.",
                )
            if types[name].startswith((*JSON, "binary")):
                raise SettingsError(
                    "KEY_TYPE",
                    f"the key column {name!r} of {self} has the type {types[name]}.",
                    hint="use a column of a plain type, such as a string or a number.",
                )

    def _version(self, rows: DataFrame, topic_ids: Mapping[str, str]) -> list[Column]:
        """Return source, offset and time of each row; a version column has no time."""
        from pyspark.sql import functions as F

        if self.version is None:
            self._check_source(rows)
            topic = F.col(f"{SOURCE}.topic")
            unique = topic
            for name, topic_id in topic_ids.items():
                unique = F.when(topic == name, F.lit(f"{name}@{topic_id}")).otherwise(unique)
            return [
                F.concat(unique, F.lit("/"), F.col(f"{SOURCE}.partition")).alias(SOURCE),
                F.col(f"{SOURCE}.offset"),
                F.unix_millis(f"{SOURCE}.timestamp").alias("timestamp"),
            ]
        no_time = F.lit(None).cast("bigint")
        return [F.lit(self.version), self._version_column(rows, self.version), no_time]

    def _check_source(self, rows: DataFrame) -> None:
        fields = rows.schema[SOURCE].dataType if SOURCE in rows.columns else None
        if not set(POSITION) <= set(getattr(fields, "names", ())):
            raise SettingsError(
                "VERSION_MISSING",
                f"the pipeline's rows have no {SOURCE}, the position of their Kafka record, which "
                f"{self} needs to compare versions.",
                hint=f"keep the column: select('{SOURCE}', ...). In an aggregation whose keys each "
                f"stay in one partition, add F.max('{SOURCE}').alias('{SOURCE}'). Otherwise name a "
                "column that only increases: version='n'.",
            )

    def _version_column(self, rows: DataFrame, name: str) -> Column:
        from pyspark.sql import functions as F

        kind = dict(rows.dtypes).get(name)
        if kind in NUMBERS:
            return rows[f"`{name}`"].cast("bigint")
        if kind == "timestamp":
            return F.unix_micros(rows[f"`{name}`"])
        raise SettingsError(
            "VERSION_TYPE",
            f"the version of {self} is the column {name!r}, which is {kind or 'missing'}.",
            hint="name a column of integers or timestamps that only increases.",
        )


def _encoded(rows: DataFrame, name: str) -> Column:
    """Return a column as the sink writes it: nested values as JSON."""
    from pyspark.sql import functions as F

    column = rows[f"`{name}`"]
    nested = dict(rows.dtypes)[name].startswith(JSON)
    return F.to_json(column, {"ignoreNullFields": "false"}).alias(name) if nested else column
