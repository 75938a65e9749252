"""Handles records that are too large for the sink, before its producer rejects them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from eagre.connectors.base import SOURCE
from eagre.connectors.error_policy import policy
from eagre.jvm import gateway

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from eagre.connectors.base import QueryContext
    from eagre.connectors.kafka.topic import KafkaTopic

PRODUCER_LIMIT = 1_048_576
"""The producer's default for ``max.request.size``."""

FITS = "_fits"


def fitting(records: DataFrame, sink: KafkaTopic, query: QueryContext) -> DataFrame:
    """Keep the records that fit into the sink; its ``on_error`` handles the others.

    Outside a pipeline there is no dead-letter topic, and all records pass.
    """
    if not query.dead_letters:
        return records.drop(SOURCE)
    fits = gateway.fits(records.sparkSession, _rules(records, sink, query), _arguments(records))
    return records.withColumn(FITS, fits).where(FITS).drop(FITS, SOURCE)


def _rules(records: DataFrame, sink: KafkaTopic, query: QueryContext) -> str:
    limit = sink.option("kafka.max.request.size", str(PRODUCER_LIMIT))
    return json.dumps(
        {
            **policy(sink.on_error, query),
            "limit": int(limit),
            "compressed": sink.option("kafka.compression.type", "none") != "none",
            "topic": sink.topics[0],
            "settings": sink.client_settings(),
            "row_by_row": gateway.row_by_row(records),
        }
    )


def _arguments(records: DataFrame) -> list[Column]:
    """Return the arguments of ``CheckSize.java``: lengths, headers, topic, provenance."""
    from pyspark.sql import functions as F

    def optional(name: str, kind: str) -> Column:
        return records[name] if name in records.columns else F.lit(None).cast(kind)

    def length(name: str) -> Column:
        return F.coalesce(F.octet_length(optional(name, "string")), F.lit(-1))

    provenance = _provenance(records)
    return [
        length("value"),
        length("key"),
        optional("headers", "array<struct<key:string,value:binary>>"),
        optional("topic", "string"),
        provenance["topic"],
        F.coalesce(provenance["partition"], F.lit(-1)),
        F.coalesce(provenance["offset"], F.lit(-1).cast("bigint")),
    ]


def _provenance(records: DataFrame) -> Column:
    """Return the row's provenance; null if it has none, or if the user replaced the column."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    kind = records.schema[SOURCE].dataType if SOURCE in records.columns else None
    if isinstance(kind, StructType) and {"topic", "partition", "offset"} <= set(kind.names):
        return records[SOURCE]
    return F.lit(None).cast("struct<topic:string,partition:int,offset:bigint>")
