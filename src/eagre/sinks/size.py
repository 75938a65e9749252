"""Rows that are too large for the sink: its producer would refuse them, and fail the query."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from eagre.error_policy import pipeline_context, policy
from eagre.jvm import gateway
from eagre.sources import SOURCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from eagre.sources import Kafka

PRODUCERS_LIMIT = 1_048_576
"""What Kafka's producer takes, if ``kafka.max.request.size`` does not say otherwise."""

FITS = "_fits"


def fitting(records: DataFrame, sink: Kafka, brokers: str | None) -> DataFrame:
    """Keep the records that the sink can take; the others go by its ``on_error``.

    Outside a pipeline nobody knows where dead letters go, and all are kept.
    """
    if not pipeline_context().clusters:
        return records.drop(SOURCE)
    fits = gateway.fits(records.sparkSession, _rules(records, sink, brokers), _arguments(records))
    return records.withColumn(FITS, fits).where(FITS).drop(FITS, SOURCE)


def _rules(records: DataFrame, sink: Kafka, brokers: str | None) -> str:
    limit = sink.options.get("kafka.max.request.size", PRODUCERS_LIMIT)
    return json.dumps(
        {
            **policy(sink.on_error, pipeline_context().clusters),
            "limit": int(limit),
            "compressed": sink.options.get("kafka.compression.type", "none") != "none",
            "topic": sink.topics[0],
            "settings": sink.client_settings(brokers),
            "row_by_row": gateway.row_by_row(records),
        }
    )


def _arguments(records: DataFrame) -> list[Column]:
    """Give what ``Fits.java`` takes: lengths, headers, the sink's topic, the row's origin."""
    from pyspark.sql import functions as F

    def optional(name: str, kind: str) -> Column:
        return records[name] if name in records.columns else F.lit(None).cast(kind)

    def length(name: str) -> Column:
        return F.coalesce(F.octet_length(optional(name, "string")), F.lit(-1))

    origin = _origin(records)
    return [
        length("value"),
        length("key"),
        optional("headers", "array<struct<key:string,value:binary>>"),
        optional("topic", "string"),
        origin["topic"],
        F.coalesce(origin["partition"], F.lit(-1)),
        F.coalesce(origin["offset"], F.lit(-1).cast("bigint")),
    ]


def _origin(records: DataFrame) -> Column:
    """Give the row's origin; null where it has none, or one of the user's own making."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    kind = records.schema[SOURCE].dataType if SOURCE in records.columns else None
    if isinstance(kind, StructType) and {"topic", "partition", "offset"} <= set(kind.names):
        return records[SOURCE]
    return F.lit(None).cast("struct<topic:string,partition:int,offset:bigint>")
