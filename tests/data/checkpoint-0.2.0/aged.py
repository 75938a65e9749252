"""The pipeline whose checkpoint version 0.2.0 wrote."""

from pyspark.sql import functions as F

import eagre as eg


@eg.udf("bigint")
def twice(n):
    return 2 * n


@eg.pipeline(
    source=eg.Kafka("aged-in", schema="card STRING, n BIGINT", partitioned_by="card"),
    sink=eg.Kafka("aged-out", key="card", delivery="exactly-once"),
)
def aged(df):
    doubled = df.withColumn("n", twice("n"))
    return doubled.groupBy("card").agg(F.count("*").alias("count"), F.sum("n").alias("total"))
