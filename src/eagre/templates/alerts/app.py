"""Turn logs and metrics into incidents, and tell of each once instead of a thousand times."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import eagre as eg

telemetry = eg.Kafka(
    "telemetry",
    schema="cluster STRING, service STRING, host STRING, level STRING, message STRING, "
    "metric STRING, value DOUBLE, at TIMESTAMP, sent_us BIGINT",
    event_time="at",
    watermark="10 seconds",
)
alerts = eg.Kafka("alerts", key="service")

LIMITS = {"cpu": 0.9, "latency_ms": 1_000, "queue": 5_000}
QUIET = "5 minutes"
TOLD_AT = [10, 100, 1_000, 10_000, 100_000, 1_000_000]
SEEN = [
    "count as records",
    "distinct(host) as hosts",
    "count(if(level = 'FATAL', 1, null)) as fatal",
    "max(value) as worst",
    "max(sent_us) as sent_us",
]


@eg.pipeline(source=telemetry, sink=alerts, slo="p99 < 300ms")
def incidents(df: DataFrame) -> DataFrame:
    """Each incident when it opens, whenever it is ten times as large, and when it is over."""
    wrong = df.withColumn("alert", alert()).where("alert IS NOT NULL")
    found = eg.session_windows(wrong, ["cluster", "service", "alert"], QUIET, SEEN)
    told = found.withColumn("news", news()).where("news IS NOT NULL")
    return told.select(
        *("cluster", "service", "alert", "news", "records", "hosts", "worst"),
        F.when(F.col("fatal") > 0, "critical").otherwise("warning").alias("severity"),
        F.col("session.start").alias("since"),
        *(caused("sent_us"), caused("_source")),
    )


def alert() -> Column:
    """What is wrong with a record, its numbers left out: records that agree are one incident."""
    failed = F.col("level").isin("ERROR", "FATAL")
    errors = F.when(failed, F.regexp_replace("message", r"\d+", "#"))
    excess = [
        F.when((F.col("metric") == metric) & (F.col("value") > limit), f"{metric} above {limit}")
        for metric, limit in LIMITS.items()
    ]
    return F.coalesce(errors, *excess)


def news() -> Column:
    """What there is to tell; of all other records of an incident nobody is told."""
    return (
        F.when(F.col("status") == "final", "over")
        .when(F.col("records") == 1, "opened")
        .when(F.col("records").isin(TOLD_AT), "worse")
    )


def caused(column: str) -> Column:
    """A column of the record that set the news off; it is silence that ends an incident."""
    return F.when(F.col("news") != "over", F.col(column)).alias(column)
