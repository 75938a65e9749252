"""Keep the newest features of each card in Redis, for services that decide by themselves.

It reads what ``app.py`` writes and has no state of its own. Redis is where ``REDIS_URL`` says, user
and password are in ``REDIS_USERNAME`` and ``REDIS_PASSWORD``.
"""

import os

from pyspark.sql import DataFrame

import eagre as eg

scores = eg.Kafka(
    "scores",
    schema="card STRING, burst BIGINT, countries BIGINT, payments BIGINT, usual DOUBLE, "
    "merchants BIGINT, risk DOUBLE, verdict STRING, at TIMESTAMP",
)
cards = eg.Redis(
    "card:{card}", key="card", url=os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
)


@eg.pipeline(source=scores, sink=cards)
def features(df: DataFrame) -> DataFrame:
    """A payment that came too late has no features, and leaves those that are there."""
    return df.where("payments IS NOT NULL")
