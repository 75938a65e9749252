"""Store the newest features of each card in Redis, for services that make their own decisions.

It reads the output of ``app.py`` and has no state. ``REDIS_URL`` is the address of Redis;
``REDIS_USERNAME`` and ``REDIS_PASSWORD`` are the credentials.
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
    """Skip payments that arrived too late: they have no features."""
    return df.where("payments IS NOT NULL")
