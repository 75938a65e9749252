"""Generate payments: busy and stolen cards; late, repeated and broken records."""

from collections.abc import Iterator
from random import Random
from typing import Any

TOPIC = "payments"
RATE = 200
CARDS = 10_000
HOME = ("FR", "FR", "FR", "DE", "DE", "ES", "US", "BR")
REPEATED, BROKEN, STOLEN = 0.01, 0.001, 0.002
SPREE = 12


def events(random: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield keys and events forever; ``late_ms`` becomes the event time, ``copy`` marks repeats."""
    number = 0
    while True:
        card = int(random.paretovariate(0.7)) % CARDS
        for stolen in [True] * SPREE if random.random() < STOLEN else [False]:
            number += 1
            event = payment(random, number, card, stolen=stolen)
            yield event["card"], event
            if random.random() < REPEATED:
                yield event["card"], {**event, "copy": True}


def payment(random: Random, number: int, card: int, *, stolen: bool) -> dict[str, Any]:
    """Create a payment; a thief buys a lot, quickly and in many places."""
    amount = random.lognormvariate(5.5 if stolen else 2 + card % 3, 0.8)
    event = {
        "id": f"{random.getrandbits(32):08x}-{number}",
        "card": f"card-{card:04d}",
        "merchant": f"m{random.randrange(5_000 if stolen else 50):04d}",
        "amount": round(amount, 2),
        "country": random.choice(HOME) if stolen else HOME[card % len(HOME)],
        "late_ms": random.choice((0, 0, 0, random.randrange(3_000))),
        "stolen": stolen,
    }
    return {**event, "amount": "n/a"} if random.random() < BROKEN else event


def expects(event: dict[str, Any]) -> bool:
    """Return whether the event must have a result: not if repeated or unparsable."""
    return not event.get("copy") and event["amount"] != "n/a"
