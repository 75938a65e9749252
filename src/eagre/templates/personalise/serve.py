"""Read a user's features as a service does: ``python serve.py user-00001`` (needs ``redis``)."""

import json
import os
import sys
from typing import Any

import redis

TYPES = {"interest": str, "remaining": float, "price": float, "reason": str}


def connect() -> redis.Redis:
    """Create the client; one is enough for the whole service, because it pools connections."""
    return redis.Redis.from_url(
        os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"),
        username=os.environ.get("REDIS_USERNAME"),
        password=os.environ.get("REDIS_PASSWORD"),
        decode_responses=True,
    )


def features(client: redis.Redis, user: str) -> dict[str, Any]:
    """Return the user's features with their types; empty for an unknown user."""
    fields = client.hgetall(f"user:{user}")
    return {name: kind(fields[name]) for name, kind in TYPES.items() if name in fields}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(features(connect(), sys.argv[1])) + "\n")
