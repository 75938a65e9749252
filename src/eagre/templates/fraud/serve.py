"""Read a card's features as a service does: ``python serve.py card-0001`` (needs ``redis``)."""

import json
import os
import sys
from typing import Any

import redis

TYPES = {
    "burst": int,
    "countries": int,
    "payments": int,
    "usual": float,
    "merchants": int,
    "risk": float,
    "verdict": str,
}


def connect() -> redis.Redis:
    """Create the client; one is enough for the whole service, because it pools connections."""
    return redis.Redis.from_url(
        os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"),
        username=os.environ.get("REDIS_USERNAME"),
        password=os.environ.get("REDIS_PASSWORD"),
        decode_responses=True,
    )


def features(client: redis.Redis, card: str) -> dict[str, Any]:
    """Return the card's features with their types; empty for an unknown card."""
    fields = client.hgetall(f"card:{card}")
    return {name: kind(fields[name]) for name, kind in TYPES.items() if name in fields}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(features(connect(), sys.argv[1])) + "\n")
