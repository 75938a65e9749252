"""Databases as sinks: rows are upserted, and one that is older than what is there changes nothing.

The version of a row is the place of the Kafka record that it comes from, ``_source``:

- Two versions from one partition of a topic compare by their offsets. One record may give a key
  several rows; they count in their order.
- Between partitions the later Kafka timestamp wins, then the name of topic and partition. Where
  each key has its partition, as it has with a keyed producer, this never happens, and the table
  follows the topic to the letter. The time that is kept with a row never goes back, so that a
  replay changes nothing even where timestamps are out of order.

A row that has lost its ``_source``, such as that of an aggregate, brings its version along:
``F.max("_source").alias("_source")`` where each key stays in one partition, or ``version="n"``
for a column of its own that only grows. Of two rows with the same number the first stays.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from eagre.errors import SettingsError
from eagre.jvm import gateway
from eagre.sources import SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

JSON = ("array", "map", "struct", "variant")
"""Types that are written as JSON."""

PLACE = ("topic", "partition", "offset", "timestamp")
"""What ``_source`` must hold to be a version."""

NUMBERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True, kw_only=True)
class Database(ABC):
    """What the database sinks share.

    Attributes:
        key: The column, or columns, whose values name a row.
        url: Where it is, without a password; from the environment if not given.
        version: A column that only grows with each newer row, if ``_source`` is not to decide.
        credentials: A file with lines ``user=...`` and ``password=...``, read by the tasks.
    """

    SCHEMES: ClassVar[tuple[str, ...]]
    VARIABLE: ClassVar[str]

    key: str | Sequence[str]
    url: str | None = None
    version: str | None = None
    credentials: str | None = None

    def __post_init__(self) -> None:
        if not self.keys or not all(self.keys):
            raise SettingsError("KEY_MISSING", f"{self} needs the column that names its rows.")
        if self.url is not None:
            self._check_url(self.url)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns, also where there is only one."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    def writer(
        self, rows: DataFrame, topic_ids: Mapping[str, str] | None = None
    ) -> DataStreamWriter:
        """Prepare the write of a stream, in update mode, as real time needs it.

        Args:
            rows: The stream.
            topic_ids: The ids of its topics: one that was deleted and made anew begins at offset 0
                again, and its id tells it from the old one.

        Raises:
            SettingsError: A key, the version or the URL is missing, or a column has a type that
                cannot be written.
        """
        if self.url is None and not os.environ.get(self.VARIABLE):
            raise SettingsError(
                "URL_MISSING",
                f"{self} has no url, and the environment has no {self.VARIABLE}.",
                hint=f"write url='{self.SCHEMES[0]}://host:port/...', or set {self.VARIABLE}.",
            )
        kept = rows.drop(SOURCE)
        self._check_keys(kept)
        version = self._version(rows, topic_ids or {})
        credentials = str(Path(self.credentials).absolute()) if self.credentials else None
        spec = {"url": self.url, "credentials": credentials, **self._spec(kept.schema)}
        values = [_written(rows, name) for name in kept.columns]
        return gateway.upserts(rows.select(*values, *version), json.dumps(spec))

    @abstractmethod
    def _spec(self, schema: StructType) -> dict[str, Any]:
        """Tell the companion what is written where; ``keys`` are the places of key columns."""

    def _check_url(self, url: str) -> None:
        """Refuse a URL that is malformed, or that would show a password to readers of the plan."""
        try:
            parts = urlsplit(url)
            sound = parts.scheme in self.SCHEMES and parts.hostname and parts.port != 0
        except ValueError:
            raise self._malformed() from None
        if parts.password or any("password" in name for name, _ in parse_qsl(parts.query)):
            raise SettingsError(
                "PASSWORD_IN_URL",
                f"the url of {self} holds a password, which would stand in code and plans.",
                hint="take it out: passwords come from the environment or from credentials='FILE'.",
            )
        if not sound:
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
                    f"the key of {self} is the column {name!r}, and the pipeline's rows have only: "
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
        """Give source, offset and time of each row; without a time, its version is its own."""
        from pyspark.sql import functions as F

        if self.version is None:
            self._check_source(rows)
            topic = F.col(f"{SOURCE}.topic")
            named = topic
            for name, topic_id in topic_ids.items():
                named = F.when(topic == name, F.lit(f"{name}@{topic_id}")).otherwise(named)
            return [
                F.concat(named, F.lit("/"), F.col(f"{SOURCE}.partition")).alias(SOURCE),
                F.col(f"{SOURCE}.offset"),
                F.unix_millis(f"{SOURCE}.timestamp").alias("timestamp"),
            ]
        nothing = F.lit(None).cast("bigint")
        return [F.lit(self.version), self._own_version(rows, self.version), nothing]

    def _check_source(self, rows: DataFrame) -> None:
        fields = rows.schema[SOURCE].dataType if SOURCE in rows.columns else None
        if not set(PLACE) <= set(getattr(fields, "names", ())):
            raise SettingsError(
                "VERSION_MISSING",
                f"the pipeline's rows have lost {SOURCE}, the place of the record they come from, "
                f"by which {self} tells newer rows from older ones.",
                hint=f"keep the column: select('{SOURCE}', ...); in an aggregate whose keys stay "
                f"in one partition each: F.max('{SOURCE}').alias('{SOURCE}'); else name a column "
                "that only grows: version='n'.",
            )

    def _own_version(self, rows: DataFrame, name: str) -> Column:
        from pyspark.sql import functions as F

        kind = dict(rows.dtypes).get(name)
        if kind in NUMBERS:
            return rows[f"`{name}`"].cast("bigint")
        if kind == "timestamp":
            return F.unix_micros(rows[f"`{name}`"])
        raise SettingsError(
            "VERSION_TYPE",
            f"the version of {self} is the column {name!r}, which is {kind or 'missing'}.",
            hint="name a column of whole numbers or timestamps that only grows.",
        )


def _written(rows: DataFrame, name: str) -> Column:
    """Give a column as it is written: nested values as JSON."""
    from pyspark.sql import functions as F

    column = rows[f"`{name}`"]
    nested = dict(rows.dtypes)[name].startswith(JSON)
    return F.to_json(column, {"ignoreNullFields": "false"}).alias(name) if nested else column
