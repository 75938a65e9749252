"""Store the features of each user in Redis, for other services.

It reads the output of ``app.py`` and has no state. ``REDIS_URL`` is the address of Redis;
``REDIS_USERNAME`` and ``REDIS_PASSWORD`` are the credentials.
"""

import os

from pyspark.sql import DataFrame

import eagre as eg

bids = eg.Kafka(
    "bids", schema="user STRING, interest STRING, remaining DOUBLE, price DOUBLE, reason STRING"
)
users = eg.Redis(
    "user:{user}", key="user", url=os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
)


@eg.pipeline(source=bids, sink=users)
def features(df: DataFrame) -> DataFrame:
    """Return the interest, remaining budget and last answer of known users."""
    return df.where("interest IS NOT NULL")
