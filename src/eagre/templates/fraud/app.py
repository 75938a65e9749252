"""Score card payments by the activity of the card in the last minute and hour."""

import json
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import eagre as eg

payments = eg.Kafka(
    "payments",
    schema="id STRING, card STRING, merchant STRING, amount DOUBLE, country STRING, "
    "at TIMESTAMP, sent_us BIGINT",
    event_time="at",
    watermark="10 seconds",
)
scores = eg.Kafka("scores", key="card")

FEATURES = {
    "1 minute": ["count as burst", "distinct(country) as countries"],
    "1 hour": ["count as payments", "avg(amount) as usual", "distinct(merchant) as merchants"],
}
RULES = {
    "burst": "burst > 20",
    "two places at once": "countries > 2",
    "far above usual": "payments > 9 and amount > 5 * usual",
}
MODEL = json.loads(Path(__file__).with_name("model.json").read_text())


@eg.pipeline(source=payments, sink=scores, slo="p99 < 300ms")
def fraud(df: DataFrame) -> DataFrame:
    """Return each payment once, with its card's features, the model's risk, and broken rules."""
    unique = eg.deduplicate(df, "id", within="10 minutes")
    scored = eg.rolling(unique, "card", FEATURES)
    return scored.withColumns({"risk": F.round(risk(), 3), "broken": broken()}).withColumn(
        "verdict",
        F.when(F.size("broken") > 0, "refuse").when(F.col("risk") > 0.5, "ask").otherwise("pass"),
    )


def risk() -> Column:
    """Return the trained model, a logistic regression, as a SQL expression without Python."""
    evidence = F.lit(MODEL["bias"])
    for feature, weight in MODEL["weights"].items():
        evidence += weight * F.expr(MODEL["features"][feature])
    return 1 / (1 + F.exp(-evidence))


def broken() -> Column:
    """Return the names of the velocity rules that a payment breaks."""
    names = [F.when(F.expr(condition), F.lit(name)) for name, condition in RULES.items()]
    return F.array_compact(F.array(*names))
