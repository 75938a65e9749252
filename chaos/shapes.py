"""The shapes: a pipeline of ``app.py``, the records it gets, and how its output is checked."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from . import oracles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Row = dict[str, Any]
SOURCE, OTHERS = "chaos-in", "chaos-others"
START = datetime(2026, 1, 1, tzinfo=UTC)
CARDS, MANY_CARDS = 40, 500


@dataclass
class Generator:
    """The state of a stream of records; a seed repeats it."""

    pick: random.Random
    cards: int
    clocks: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def row(self, number: int) -> Row:
        """Return the next row: the event time of a card moves on, with gaps and some disorder."""
        card = f"card-{self.pick.randrange(self.cards)}"
        self.clocks[card] += self.pick.choice([0.25, 1, 3, 3]) + 60 * (self.pick.random() < 0.02)
        early = self.pick.choice([0, 0, 0, 10]) * self.pick.random()
        at = START + timedelta(seconds=max(0.0, self.clocks[card] - early))
        stamp = at.isoformat(timespec="milliseconds")
        return {"id": number, "card": card, "n": self.pick.randrange(1000), "at": stamp}


Records = list[tuple[str, Row]]


def plain(stream: Generator, number: int) -> Records:
    """One row of the source."""
    return [(SOURCE, stream.row(number))]


def bursting(stream: Generator, number: int) -> Records:
    """One row; every five-hundredth asks for three thousand results."""
    return [(SOURCE, {**stream.row(number), "copies": 3000 if number % 500 == 250 else 2})]


def repeating(stream: Generator, number: int) -> Records:
    """One row, and every fifth a second time."""
    return plain(stream, number) * (2 if stream.pick.random() < 0.2 else 1)


def paired(stream: Generator, number: int) -> Records:
    """One row of the source or, every third, of the other topic."""
    row = stream.row(number)
    if number % 3:
        return [(SOURCE, row)]
    other = {"other": row["id"], "card": row["card"], "price": row["n"], "when": row["at"]}
    return [(OTHERS, other)]


def tabled(stream: Generator, number: int) -> Records:
    """First the table, a row for each card; then rows of the source."""
    if number < stream.cards:
        row = stream.row(number)
        return [(OTHERS, {"other": number, "card": f"card-{number}", "price": row["n"]})]
    return plain(stream, number)


@dataclass(frozen=True)
class Shape:
    """A pipeline, its input and the check of its output.

    Attributes:
        name: The pipeline, and its output: the topic ``chaos-NAME`` or a database.
        expected: Computes the results from the records of the source topics: pairs of the record
            that causes a result and the result; of a ``latest`` shape the final ones only.
        records: Generates the records with a number.
        label: The fields of a result that identify it among those of its card.
        exactly_once: Whether no result may be repeated.
        latest: The fields whose newest result counts; empty if each result counts.
        ordered: Whether the results of a card have the order of its rows.
        aligned: Whether each card must stay in one partition.
        python: Whether Python workers take part.
        output: ``kafka``, ``postgresql`` or ``redis``.
        cards: The number of keys.
        rate: How much of the campaign's rate it gets.
    """

    name: str
    expected: Callable[[dict[str, list[Row]]], Iterator[tuple[Row, Row]]]
    records: Callable[[Generator, int], Records] = plain
    label: tuple[str, ...] = ("count", "total")
    exactly_once: bool = True
    latest: tuple[str, ...] = ()
    ordered: bool = True
    aligned: bool = True
    python: bool = False
    output: str = "kafka"
    cards: int = CARDS
    rate: float = 1.0

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it reads."""
        return (SOURCE, OTHERS) if self.records in {paired, tabled} else (SOURCE,)

    @property
    def pipeline(self) -> str:
        """Its name on the command line."""
        return self.name

    def generator(self, seed: int) -> Generator:
        """Return its stream for a seed."""
        return Generator(random.Random(seed), self.cards)


COPY = ("id", "n", "copy")
ROW = ("id", "n")
ALL = (
    Shape("stateless", oracles.stateless, label=COPY, aligned=False),
    Shape("bursts", oracles.bursts, bursting, COPY, aligned=False),
    Shape("counts", oracles.counts),
    Shape("distinct", oracles.distinct, repeating, ROW, ordered=False, aligned=False),
    Shape("union", oracles.union, paired, ROW, ordered=False, aligned=False),
    Shape("functions", oracles.functions, label=COPY, aligned=False, python=True, rate=0.5),
    Shape("python-state", oracles.counts, python=True, rate=0.5),
    Shape("postgres", oracles.totals, latest=("card",), exactly_once=False, output="postgresql"),
    Shape("redis", oracles.totals, latest=("card",), exactly_once=False, output="redis"),
    Shape(
        "deduplicate", oracles.distinct, repeating, ROW, exactly_once=False, ordered=False,
        rate=0.5,
    ),
    Shape(
        "rolling", oracles.rolling, label=("id", "count", "total"), exactly_once=False, rate=0.5
    ),
    Shape(
        "windows", oracles.windows, label=("window", "count", "total"), exactly_once=False, rate=0.5
    ),
    Shape("sessions", oracles.sessions, latest=("card", "session"), exactly_once=False, rate=0.5),
    Shape(
        "leaders", oracles.leaders, latest=("zone", "window", "rank"), label=("card", "score"),
        exactly_once=False, rate=0.5,
    ),
    Shape(
        "join", oracles.join, paired, ("id", "other"), exactly_once=False, ordered=False,
        cards=MANY_CARDS, rate=0.5,
    ),
    Shape(
        "lookup", oracles.lookup, tabled, ("id", "price"), exactly_once=False, ordered=False,
        rate=0.5,
    ),
)  # fmt: skip
SHAPES = {shape.name: shape for shape in ALL}
