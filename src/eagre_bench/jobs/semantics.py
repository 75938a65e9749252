"""What each workload means: the reference every system's results are compared with.

Plain Python without imports of its own, so that the Python systems run this very code inside
their own environments, and the verifier replays it over what was sent.

``step(state, event)`` takes one event and the state of its key (a dict that it may change) and
gives the results. A result has a *slot*, what it is about, and a *version*, how many events went
into it: a system may leave out a version when a newer one of the same slot follows at once, never
a slot, and never give one version twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Event = dict[str, Any]
State = dict[str, Any]
Result = dict[str, Any]
Merchants = dict[str, list[str]]
"""Category and country by merchant."""

TUMBLE_MS = 10_000
ROLL_MS, ROLL_EVERY_MS = 60_000, 20_000
BOARD_MS, RANKS = 3_600_000, 10
LEAST_AMOUNT = 500
HIGH_AMOUNT, MIDDLE_AMOUNT = 50_000, 10_000
EDGE = 300
"""The limit of a deviation, in hundredths, in both directions."""


@dataclass(frozen=True)
class Semantics:
    """One workload's meaning.

    Attributes:
        key: The field that events are keyed by in the topic, and the key of the state.
        step: From a key's state and an event to results.
        slot: The fields of a result that say what it is about.
        version: The field that grows with each event of the slot; None where there is only one.
        stateful: Whether ``step`` uses the state.
    """

    key: str
    step: Callable[[State, Event, Merchants], list[Result]]
    slot: tuple[str, ...]
    version: str | None = None
    stateful: bool = False


def forward(_: State, event: Event, __: Merchants) -> list[Result]:
    """The unchanged event."""
    return [event]


def project(_: State, event: Event, __: Merchants) -> list[Result]:
    """Payments above a floor, with their tier."""
    amount = event["amount"]
    if amount < LEAST_AMOUNT:
        return []
    tier = "high" if amount >= HIGH_AMOUNT else "middle" if amount >= MIDDLE_AMOUNT else "low"
    return [{"id": event["id"], "card": event["card"], "amount": amount, "tier": tier}]


def count(state: State, event: Event, _: Merchants) -> list[Result]:
    """How many payments of the card so far, and their sum."""
    state["n"] = state.get("n", 0) + 1
    state["total"] = state.get("total", 0) + event["amount"]
    return [{"card": event["card"], "n": state["n"], "total": state["total"]}]


def window(state: State, event: Event, _: Merchants) -> list[Result]:
    """The same in the ten-second window of the event's time."""
    start = event["event_time"] // TUMBLE_MS * TUMBLE_MS
    for old in [s for s in state if int(s) < start - TUMBLE_MS]:
        del state[old]
    n, total = state.get(str(start), (0, 0))
    n, total = n + 1, total + event["amount"]
    state[str(start)] = (n, total)
    return [{"card": event["card"], "start": start, "n": n, "total": total}]


def dedup(state: State, event: Event, _: Merchants) -> list[Result]:
    """The first event of an id."""
    if state.get("seen"):
        return []
    state["seen"] = True
    return [{"id": event["id"], "card": event["card"], "amount": event["amount"]}]


def enrich(_: State, event: Event, merchants: Merchants) -> list[Result]:
    """The payment with its merchant's category and country; none for an unknown merchant."""
    known = merchants.get(event["merchant"])
    if known is None:
        return []
    named = {"id": event["id"], "card": event["card"], "amount": event["amount"]}
    return [{**named, "category": known[0], "country": known[1]}]


def features(state: State, event: Event, _: Merchants) -> list[Result]:
    """Count, sum, least and largest of the card in each rolling minute that holds the event."""
    newest = event["event_time"] // ROLL_EVERY_MS * ROLL_EVERY_MS
    for old in [s for s in state if int(s) < newest - 2 * ROLL_MS]:
        del state[old]
    return [
        _rolled(state, event, start)
        for start in range(newest - ROLL_MS + ROLL_EVERY_MS, newest + 1, ROLL_EVERY_MS)
    ]


def _rolled(state: State, event: Event, start: int) -> Result:
    amount = event["amount"]
    n, total, least, largest = state.get(str(start), (0, 0, amount, amount))
    row = (n + 1, total + amount, min(least, amount), max(largest, amount))
    state[str(start)] = row
    named = dict(zip(("n", "total", "least", "largest"), row, strict=True))
    return {"card": event["card"], "start": start, **named}


def top(state: State, event: Event, _: Merchants) -> list[Result]:
    """The ranks that change among the ten merchants where the card spent most in the hour."""
    start = event["event_time"] // BOARD_MS * BOARD_MS
    if state.get("start") != start:
        state.update(start=start, spent={}, board=[])
    spent, before, merchant = state["spent"], state["board"], event["merchant"]
    spent[merchant] = spent.get(merchant, 0) + event["amount"]
    after = sorted(map(list, spent.items()), key=lambda item: (-item[1], item[0]))[:RANKS]
    state["board"] = after
    return [
        {"card": event["card"], "start": start, "rank": rank, "merchant": name, "spent": total}
        for rank, (name, total) in enumerate(after, 1)
        if before[rank - 1 : rank] != [[name, total]]
    ]


def risk(card: str, amount: int) -> int:
    """A small model, scored in Python: a thousandth's risk from the amount and the card."""
    digits = sum(ord(letter) for letter in card)
    evidence = 0.9 * math.log1p(amount / 1000) - 2.5 + 0.4 * math.sin(digits)
    return round(1000 / (1 + math.exp(-evidence)))


def python_map(_: State, event: Event, __: Merchants) -> list[Result]:
    """The payment with its risk."""
    named = {"id": event["id"], "card": event["card"], "amount": event["amount"]}
    return [{**named, "risk": risk(event["card"], event["amount"])}]


def python_state(state: State, event: Event, _: Merchants) -> list[Result]:
    """The deviation of the payment from the card's mean so far, in hundredths."""
    n, mean, squares = state.get("n", 0), state.get("mean", 0.0), state.get("squares", 0.0)
    off = event["amount"] - mean
    deviation = math.sqrt(squares / n) if n else 0.0
    score = max(-EDGE, min(EDGE, round(100 * off / deviation))) if deviation else 0
    n, mean = n + 1, mean + off / (n + 1)
    state.update(n=n, mean=mean, squares=squares + off * (event["amount"] - mean))
    return [{"card": event["card"], "n": n, "score": score}]


SEMANTICS = {
    "field": Semantics("event_id", forward, ("event_id",)),
    "stateless": Semantics("card", project, ("id",)),
    "count": Semantics("card", count, ("card",), "n", stateful=True),
    "window": Semantics("card", window, ("card", "start"), "n", stateful=True),
    "dedup": Semantics("id", dedup, ("id",), stateful=True),
    "enrich": Semantics("card", enrich, ("id",)),
    "features": Semantics("card", features, ("card", "start"), "n", stateful=True),
    "top": Semantics("card", top, ("card", "start", "rank", "merchant"), "spent", stateful=True),
    "python-map": Semantics("card", python_map, ("id",)),
    "python-state": Semantics("card", python_state, ("card",), "n", stateful=True),
}
"""By workload."""
