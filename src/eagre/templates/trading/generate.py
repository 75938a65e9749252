"""Ticks as they come: few symbols are most of them; trends, late, repeated and broken ticks."""

from collections.abc import Iterator
from random import Random
from typing import Any

TOPIC = "ticks"
RATE = 200
SYMBOLS = 200
SOON, TURN, REPEATED, BROKEN = 0.2, 0.01, 0.01, 0.001


def events(random: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a key and an event, for ever; ``late_ms`` becomes its time, ``copy`` marks repeats."""
    markets = [Market(random, number) for number in range(SYMBOLS)]
    again: list[dict[str, Any]] = []
    while True:
        event = markets[int(random.paretovariate(0.7)) % SYMBOLS].tick()
        yield event["symbol"], event
        if random.random() < REPEATED:
            again.append({**event, "copy": True})
        if again and random.random() < SOON:
            copy = again.pop(0)
            yield copy["symbol"], copy


class Market:
    """A symbol whose price wanders, with a trend that turns now and then."""

    def __init__(self, random: Random, number: int) -> None:
        self.random = random
        self.symbol = f"S{number:03d}"
        self.price = 20.0 + number
        self.trend = 0.0

    def tick(self) -> dict[str, Any]:
        """One trade: in a rising market more of them are bought."""
        pick = self.random
        if pick.random() < TURN:
            self.trend = pick.uniform(-1, 1)
        self.price = max(1.0, self.price * (1 + 0.0002 * (self.trend + pick.gauss(0, 1))))
        return {
            "id": pick.getrandbits(50),
            "symbol": self.symbol,
            "price": "n/a" if pick.random() < BROKEN else round(self.price, 2),
            "size": 1 + int(10 * pick.paretovariate(1.2)),
            "side": "buy" if pick.random() < 0.5 + self.trend / 4 else "sell",
            "late_ms": pick.choice((0, 0, 0, pick.randrange(3_000))),
        }


def expects(event: dict[str, Any]) -> bool:
    """Tell whether a result must come: not of a repeat, nor of a record that cannot be read."""
    return not event.get("copy") and event["price"] != "n/a"
