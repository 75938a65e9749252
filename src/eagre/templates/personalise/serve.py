"""How a service reads what is known of a user: ``python serve.py user-00001`` (needs ``redis``)."""

import json
import os
import sys
from typing import Any

import redis

TYPES = {"interest": str, "remaining": float, "price": float, "reason": str}


def connect() -> redis.Redis:
    """One client for the whole service: it keeps its connections."""
    return redis.Redis.from_url(
        os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"),
        username=os.environ.get("REDIS_USERNAME"),
        password=os.environ.get("REDIS_PASSWORD"),
        decode_responses=True,
    )


def features(client: redis.Redis, user: str) -> dict[str, Any]:
    """What is known of the user, each of its type; nothing of a stranger."""
    fields = client.hgetall(f"user:{user}")
    return {name: kind(fields[name]) for name, kind in TYPES.items() if name in fields}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(features(connect(), sys.argv[1])) + "\n")
