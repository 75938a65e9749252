"""Score card payments while the customer is still at the till."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import eagre as eg

payments = eg.Kafka("payments", schema="card STRING, amount DOUBLE, country STRING, sent_us BIGINT")
scores = eg.Kafka("scores", key="card")


@eg.pipeline(source=payments, sink=scores)
def score(df: DataFrame) -> DataFrame:
    """Score large payments and payments from far away as risky."""
    large = F.when(F.col("amount") > 1000, 0.6).otherwise(0.1)
    far = F.when(F.col("country").isin("FR", "DE", "ES"), 0.0).otherwise(0.3)
    return df.withColumn("risk", F.round(large + far, 2))
