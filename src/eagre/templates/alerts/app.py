"""Group logs and metrics into incidents, and report each once instead of a thousand times."""

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
REPORTED_AT = [10, 100, 1_000, 10_000, 100_000, 1_000_000]
AGGREGATES = [
    "count as records",
    "distinct(host) as hosts",
    "count(if(level = 'FATAL', 1, null)) as fatal",
    "max(value) as worst",
    "max(sent_us) as sent_us",
]


@eg.pipeline(source=telemetry, sink=alerts, slo="p99 < 300ms")
def incidents(df: DataFrame) -> DataFrame:
    """Report each incident when it opens, whenever it grows tenfold, and when it is over."""
    wrong = df.withColumn("alert", alert()).where("alert IS NOT NULL")
    sessions = eg.session_windows(wrong, ["cluster", "service", "alert"], QUIET, AGGREGATES)
    reported = sessions.withColumn("news", news()).where("news IS NOT NULL")
    return reported.select(
        *("cluster", "service", "alert", "news", "records", "hosts", "worst"),
        F.when(F.col("fatal") > 0, "critical").otherwise("warning").alias("severity"),
        F.col("session.start").alias("since"),
        *(from_trigger("sent_us"), from_trigger("_source")),
    )


def alert() -> Column:
    """Return the problem of a record without its numbers; equal problems are one incident."""
    failed = F.col("level").isin("ERROR", "FATAL")
    errors = F.when(failed, F.regexp_replace("message", r"\d+", "#"))
    excess = [
        F.when((F.col("metric") == metric) & (F.col("value") > limit), f"{metric} above {limit}")
        for metric, limit in LIMITS.items()
    ]
    return F.coalesce(errors, *excess)


def news() -> Column:
    """Return what to report; null for records of an incident that are not reported."""
    return (
        F.when(F.col("status") == "final", "over")
        .when(F.col("records") == 1, "opened")
        .when(F.col("records").isin(REPORTED_AT), "worse")
    )


def from_trigger(column: str) -> Column:
    """Return a column of the record that triggered the report; silence triggers the last one."""
    return F.when(F.col("news") != "over", F.col(column)).alias(column)
