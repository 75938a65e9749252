"""Count and sum per key: the smallest stateful pipeline, with one shuffle."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import eagre as eg

payments = eg.Kafka("payments", schema="card STRING, amount DOUBLE, sent_us BIGINT")
counts = eg.Kafka("counts", key="card")


@eg.pipeline(source=payments, sink=counts)
def count(df: DataFrame) -> DataFrame:
    """Each row updates its key; the newest row's intended send time goes with the result."""
    return df.groupBy("card").agg(
        F.count("*").alias("n"), F.sum("amount").alias("total"), F.max("sent_us").alias("sent_us")
    )
