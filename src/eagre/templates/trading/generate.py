"""Generate ticks, most of them of a few symbols: trends; late, repeated and broken ticks."""

from collections.abc import Iterator
from random import Random
from typing import Any

TOPIC = "ticks"
RATE = 200
SYMBOLS = 200
REPEAT_NOW, TURN, REPEATED, BROKEN = 0.2, 0.01, 0.01, 0.001


def events(random: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield keys and events forever; ``late_ms`` becomes the event time, ``copy`` marks repeats."""
    markets = [Market(random, number) for number in range(SYMBOLS)]
    repeats: list[dict[str, Any]] = []
    while True:
        event = markets[int(random.paretovariate(0.7)) % SYMBOLS].tick()
        yield event["symbol"], event
        if random.random() < REPEATED:
            repeats.append({**event, "copy": True})
        if repeats and random.random() < REPEAT_NOW:
            copy = repeats.pop(0)
            yield copy["symbol"], copy


class Market:
    """A symbol whose price is a random walk with a changing trend."""

    def __init__(self, random: Random, number: int) -> None:
        self.random = random
        self.symbol = f"S{number:03d}"
        self.price = 20.0 + number
        self.trend = 0.0

    def tick(self) -> dict[str, Any]:
        """Create a trade; in a rising market more trades are buys."""
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
    """Return whether the event must have a result: not if repeated or unparsable."""
    return not event.get("copy") and event["price"] != "n/a"
