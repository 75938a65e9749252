"""Archive every reading in Parquet once a minute: ``python archive.py``.

It reads the topic that ``app.py`` declares. It has its own Spark session, checkpoint and trigger,
so neither query slows down the other.
"""

import os
import sys
from contextlib import suppress
from dataclasses import replace

from app import readings
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import eagre as eg

FOLDER, CHECKPOINT = "archive", ".eagre/checkpoints/archive"
EVERY = {"processingTime": "1 minute"}


def archive(
    spark: SparkSession, brokers: str, folder: str, checkpoint: str, trigger: dict[str, object]
) -> StreamingQuery:
    """Write each valid reading, with its position in the topic, into a folder per day."""
    everything = replace(readings, starting="earliest", on_error="drop")
    rows = everything.read(spark, brokers, mode="micro-batch").select(
        *("id", "device", "value", "at"),
        F.col("_source.partition").alias("partition"),
        F.col("_source.offset").alias("offset"),
        F.to_date("at").alias("day"),
    )
    return (
        rows.writeStream.queryName("archive")
        .format("parquet")
        .partitionBy("day")
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start(folder)
    )


if __name__ == "__main__":
    brokers = sys.argv[1] if len(sys.argv) > 1 else os.environ["EAGRE_BROKERS"]
    query = archive(eg.session("archive", "local[1]"), brokers, FOLDER, CHECKPOINT, EVERY)
    with suppress(KeyboardInterrupt):
        query.awaitTermination()
