"""What each shape must give, computed in plain Python from the records of its topics.

An oracle gets the rows by topic, each topic in the order of its partitions and offsets, and yields
pairs: the row that causes a result, and the result.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Row = dict[str, Any]
Rows = dict[str, list[Row]]
Results = "Iterator[tuple[Row, Row]]"
MINUTE, HALF_MINUTE, GAP = 60_000, 30_000, 20_000


def ms(time: str) -> int:
    """Return milliseconds since 1970."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def _copied(row: Row, copies: int) -> Iterator[tuple[Row, Row]]:
    for copy in range(1, copies + 1):
        yield row, {"id": row["id"], "card": row["card"], "n": row["n"], "copy": copy}


def stateless(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """One result for each row, two for every third."""
    for row in rows["chaos-in"]:
        yield from _copied(row, 2 if row["id"] % 3 == 0 else 1)


def bursts(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """As many results as the row asks for."""
    for row in rows["chaos-in"]:
        yield from _copied(row, row["copies"])


def functions(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """Two results for each row, with its number doubled and increased."""
    for row in rows["chaos-in"]:
        for _, result in _copied(row, 2):
            yield row, {**result, "n": 2 * row["n"] + 1}


def counts(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """The running count and sum of a card, whose rows are in one partition, in order."""
    sums: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in rows["chaos-in"]:
        count, total = sums[row["card"]]
        sums[row["card"]] = count, total = count + 1, total + row["n"]
        yield row, {"card": row["card"], "count": count, "total": total}


def totals(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """The last count and sum of each card."""
    yield from {result["card"]: (row, result) for row, result in counts(rows)}.values()


def distinct(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """The first row of each id."""
    first: dict[str, Row] = {}
    for row in rows["chaos-in"]:
        first.setdefault(row["id"], row)
    for row in first.values():
        yield row, {"id": row["id"], "card": row["card"], "n": row["n"]}


def union(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """The rows of both topics."""
    for row in rows["chaos-in"]:
        yield row, {"id": row["id"], "card": row["card"], "n": row["n"]}
    for row in rows["chaos-others"]:
        yield row, {"id": row["other"], "card": row["card"], "n": row["price"]}


def rolling(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """Count and sum of the minute before each row, in slices of a second."""
    seen: dict[str, dict[int, tuple[int, int]]] = defaultdict(lambda: defaultdict(lambda: (0, 0)))
    for row in rows["chaos-in"]:
        current, slices = ms(row["at"]) // 1000, seen[row["card"]]
        slices[current] = slices[current][0] + 1, slices[current][1] + row["n"]
        window = [slices[s] for s in range(current - 59, current + 1) if s in slices]
        count, total = (sum(values) for values in zip(*window, strict=True))
        yield row, {"id": row["id"], "card": row["card"], "count": count, "total": total}


def windows(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """The window of each row, as far as it has come."""
    sums: dict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in rows["chaos-in"]:
        window = ms(row["at"]) // HALF_MINUTE * HALF_MINUTE
        count, total = sums[row["card"], window]
        sums[row["card"], window] = count, total = count + 1, total + row["n"]
        yield row, {"card": row["card"], "window": window, "count": count, "total": total}


def _by_card(rows: Iterable[Row], time: str) -> dict[str, list[Row]]:
    cards = defaultdict(list)
    for row in sorted(rows, key=lambda row: ms(row[time])):
        cards[row["card"]].append(row)
    return cards


def sessions(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """The sessions of each card: rows at most a gap apart."""
    for card, timed in _by_card(rows["chaos-in"], "at").items():
        breaks = [
            n for n, (a, b) in enumerate(pairwise(timed), 1) if ms(b["at"]) - ms(a["at"]) > GAP
        ]
        for begin, end in pairwise([0, *breaks, len(timed)]):
            session = timed[begin:end]
            yield (
                session[-1],
                {
                    "card": card,
                    "session": ms(session[0]["at"]),
                    "count": len(session),
                    "total": sum(row["n"] for row in session),
                },
            )


def leaders(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """The three best cards of each zone and minute."""
    scores: dict[tuple[str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows["chaos-in"]:
        group = row["card"][-1], ms(row["at"]) // MINUTE * MINUTE
        scores[group][row["card"]] += row["n"] - 500
    for (zone, window), cards in scores.items():
        best = sorted(cards.items(), key=lambda item: (-item[1], item[0]))[:3]
        for rank, (card, score) in enumerate(best, 1):
            board = {"zone": zone, "window": window, "rank": rank}
            yield {}, {**board, "card": card, "score": score}


def join(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """The pairs of a card within 2 s before and 10 s after the left row."""
    right = _by_card(rows["chaos-others"], "when")
    for card, lefts in _by_card(rows["chaos-in"], "at").items():
        times = [(ms(row["when"]), row["other"]) for row in right.get(card, ())]
        for row in lefts:
            at = ms(row["at"])
            for when, other in times:
                if at - 2000 <= when <= at + 10_000:
                    yield row, {"id": row["id"], "card": card, "other": other}


def lookup(rows: Rows) -> Iterator[tuple[Row, Row]]:
    """Each row with the price of its card."""
    prices = {row["card"]: row["price"] for row in rows["chaos-others"]}
    for row in rows["chaos-in"]:
        yield row, {"id": row["id"], "card": row["card"], "price": prices[row["card"]]}
