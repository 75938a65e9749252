"""Keep what is known of each user in Redis, for services beside the bidder.

It reads what ``app.py`` writes and has no state of its own. Redis is where ``REDIS_URL`` says, user
and password are in ``REDIS_USERNAME`` and ``REDIS_PASSWORD``.
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
    """The user's interest, what is left of the budget, and the last answer; strangers are none."""
    return df.where("interest IS NOT NULL")
