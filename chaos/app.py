"""Two pipelines with exactly-once delivery.

Their outputs have more partitions than their source, so that neighbouring rows of the source go to
different partitions: a run that dies may have delivered any subset of them.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import eagre as eg

events = eg.Kafka(
    "chaos-in", schema="id BIGINT, card STRING, n BIGINT", partitioned_by="card", partitions=2
)


@eg.pipeline(
    source=events,
    sink=eg.Kafka(
        "chaos-stateless", key="card", delivery="exactly-once", fence="in-band", partitions=3
    ),
)
def stateless(df: DataFrame) -> DataFrame:
    """Return one result for most rows, two for every third."""
    copies = F.sequence(F.lit(1), F.when(F.col("id") % 3 == 0, 2).otherwise(1))
    return df.select("id", "card", "n", F.explode(copies).alias("copy"))


@eg.pipeline(
    source=events,
    sink=eg.Kafka(
        "chaos-counts", key="card", delivery="exactly-once", fence="in-band", partitions=3
    ),
)
def counts(df: DataFrame) -> DataFrame:
    """Return the running count and sum of each card."""
    return df.groupBy("card").agg(F.count("*").alias("count"), F.sum("n").alias("total"))
