"""Generate payments: a few busy cards, many quiet ones, mostly small amounts."""

from collections.abc import Iterator
from random import Random
from typing import Any

TOPIC = "payments"
RATE = 2_000
COUNTRIES = ("FR", "FR", "FR", "DE", "DE", "ES", "US", "BR")


def events(random: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield keys and events forever."""
    while True:
        card = f"card-{int(random.paretovariate(0.7)) % 10_000:04d}"
        amount = round(random.lognormvariate(3.5, 1.4), 2)
        yield card, {"card": card, "amount": amount, "country": random.choice(COUNTRIES)}
