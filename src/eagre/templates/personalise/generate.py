"""Generate bid requests: busy and unknown users; late, repeated and broken requests."""

from collections.abc import Iterator
from random import Random
from typing import Any

TOPIC = "requests"
RATE = 200
USERS = 2_000
SUBJECTS = ("news", "news", "news", "sport", "sport", "games", "travel", "music")
STRANGER, REPEATED, BROKEN = 0.05, 0.01, 0.001


def tables(random: Random) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield topic, key and row of the profiles that exist before the first request."""
    for number in range(USERS):
        value = round(random.lognormvariate(0.5, 0.6), 2)
        profile = {
            "user": name(number),
            "interest": random.choice(SUBJECTS),
            "value": value,
            "budget": round(value * random.randrange(20, 200), 2),
        }
        yield "profiles", name(number), profile


def events(random: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield keys and events forever; ``late_ms`` becomes the event time, ``copy`` marks repeats."""
    number = 0
    while True:
        number += 1
        event = request(random, number)
        yield event["user"], event
        if random.random() < REPEATED:
            yield event["user"], {**event, "copy": True}


def request(random: Random, number: int) -> dict[str, Any]:
    """Create a request: 1 % of the users send 20 % of them."""
    stranger = random.random() < STRANGER
    event = {
        "id": f"{random.getrandbits(32):08x}-{number}",
        "user": f"stranger-{number}" if stranger else name(int(USERS * random.random() ** 3)),
        "subject": random.choice(SUBJECTS),
        "floor": round(random.expovariate(2), 2),
        "late_ms": random.choice((0, 0, 0, random.randrange(3_000))),
    }
    return {**event, "floor": "n/a"} if random.random() < BROKEN else event


def name(number: int) -> str:
    """Return the name of a known user."""
    return f"user-{number:05d}"


def expects(event: dict[str, Any]) -> bool:
    """Return whether the event must have an answer; a repeat only if the user is unknown."""
    return event["floor"] != "n/a" and ("copy" not in event or event["user"].startswith("stranger"))
