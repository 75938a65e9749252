"""Workloads: events, rate and expected results. One data file each."""

from __future__ import annotations

import string
import tomllib
import uuid
from collections import deque
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from eagre.trial.producer import PRODUCER, encode
from eagre_bench.errors import BenchError
from eagre_bench.jobs.semantics import SEMANTICS, Merchants, Semantics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.trial.events import Record
    from eagre.trial.judge import Judge
    from eagre.trial.load import Load
    from eagre.trial.meter import Measurement

FOLDER = Path(__file__).parent / "workloads"
MERCHANTS = 10_000
_CATEGORIES = ("food", "fuel", "travel", "games", "health", "home")
_COUNTRIES = ("DE", "FR", "IN", "JP", "NO", "US")
_PAYLOAD = 128
_UNKNOWN_SHARE = 0.01
_REPEATED_SHARE = 0.1
_REMEMBERED = 200
_HIGHEST_AMOUNT = 100_000
_EVENT_TIME = b'"event_time":'
_MILLISECOND_DIGITS = 13

Event = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """One workload, as in its data file.

    Attributes:
        name: The name of the file.
        title: A short description.
        statement: The semantics that every system must implement.
        rate: Events per second.
        warmup: Seconds before the measurement.
        seconds: Seconds measured.
        trigger: The trigger of micro-batches.
        epoch: The checkpoint interval of every system.
        partitions: The partitions of the source and of the results.
        cards: The number of keys.
    """

    name: str
    title: str
    statement: str
    rate: float
    warmup: float
    seconds: float
    trigger: str
    epoch: str
    partitions: int
    cards: int

    probe_age_us = 0

    @property
    def reference(self) -> str:
        """The name for the processes of a trial.

        >>> workload("python-map").reference
        'eagre_bench.workloads:python_map'
        """
        return f"{__package__}.{FOLDER.name}:{self.name.replace('-', '_')}"

    @property
    def semantics(self) -> Semantics:
        """The reference."""
        return SEMANTICS[self.name]

    def events(self, seed: int) -> Iterator[Event]:
        """Yield events without their time, endlessly; ids and cards depend on the seed.

        >>> [event["id"] for event, _ in zip(workload("count").events(7), range(2))]
        ['7-0', '7-1']
        """
        random = Random(seed)  # noqa: S311  (events, not secrets)
        if self.name == "field":
            return _field(random)
        payments = _payments(random, seed, self.cards)
        return _repeating(random, payments) if self.name == "dedup" else payments

    def feed(self, load: Load) -> Iterator[Record]:
        """Yield each event with its intended time in ``event_time``."""
        field = self.semantics.key
        for number, event in zip(range(load.records), self.events(load.seed), strict=False):
            due = load.due_us(number)
            yield event[field], {**event, "event_time": due // 1000}, due

    def judge(self, what: Measurement) -> Judge:
        """Return a judge that compares the results with the reference."""
        from eagre_bench.judge import Verified

        return Verified(self, what)

    def evidence(self, record: Any) -> bytes:  # noqa: ANN401  (a record of Kafka's client)
        """Return the value of a result."""
        return record.value() or b""

    def glance_us(self, what: Measurement, evidence: bytes) -> int | None:
        """Return when the event of a result was due, if the result contains its time."""
        del what
        return event_time_us(evidence)


def workload(name: str) -> Workload:
    """Read a workload's data file.

    Raises:
        BenchError: It does not exist.
    """
    if name not in names():
        raise BenchError(
            "WORKLOAD_UNKNOWN",
            f"there is no workload {name!r}.",
            hint=f"choose from: {', '.join(names())}.",
        )
    return Workload(name=name, **tomllib.loads((FOLDER / f"{name}.toml").read_text()))


def names() -> list[str]:
    """Return all workloads, in the order of the report."""
    return list(SEMANTICS)


@cache
def merchants() -> Merchants:
    """Return the table that ``enrich`` joins with."""
    random = Random(0)  # noqa: S311
    return {
        f"m{number:04}": [random.choice(_CATEGORIES), random.choice(_COUNTRIES)]
        for number in range(MERCHANTS)
    }


def write_merchants(path: Path) -> None:
    """Write the table as a file for the systems."""
    path.write_text("".join(f"{m},{c[0]},{c[1]}\n" for m, c in merchants().items()))


def send_merchants(brokers: str, topic: str) -> None:
    """Write the table that ``enrich`` joins with into a topic."""
    from confluent_kafka import Producer

    producer: Any = Producer({**PRODUCER, "linger.ms": 5, "bootstrap.servers": brokers})
    for name, (category, country) in merchants().items():
        row = {"merchant": name, "category": category, "country": country}
        producer.produce(topic, encode(row), name)
    producer.flush(10)


def event_time_us(value: bytes) -> int | None:
    """Find the event time in a result without parsing it; some workloads have none.

    >>> event_time_us(b'{"event_time":1731650000123,"payload":""}')
    1731650000123000
    >>> event_time_us(b'{"card":"c1","n":3}')
    """
    begin = value.find(_EVENT_TIME) + len(_EVENT_TIME)
    if begin < len(_EVENT_TIME):
        return None
    return int(value[begin : begin + _MILLISECOND_DIGITS]) * 1000


def _field(random: Random) -> Iterator[Event]:
    text = "".join(random.choices(string.ascii_letters + string.digits, k=1 << 16))
    while True:
        at = random.randrange(len(text) - _PAYLOAD)
        identity = uuid.UUID(int=random.getrandbits(128), version=4)
        yield {"event_id": str(identity), "payload": text[at : at + _PAYLOAD]}


def _payments(random: Random, seed: int, cards: int) -> Iterator[Event]:
    number = 0
    while True:
        unknown = random.random() < _UNKNOWN_SHARE
        yield {
            "id": f"{seed}-{number}",
            "card": f"{seed}-c{random.randrange(cards)}",
            "merchant": "unknown" if unknown else f"m{random.randrange(MERCHANTS):04}",
            "amount": random.randrange(1, _HIGHEST_AMOUNT),
        }
        number += 1


def _repeating(random: Random, payments: Iterator[Event]) -> Iterator[Event]:
    lately: deque[Event] = deque(maxlen=_REMEMBERED)
    while True:
        if len(lately) == _REMEMBERED and random.random() < _REPEATED_SHARE:
            yield lately[random.randrange(_REMEMBERED // 2)]
            continue
        lately.append(next(payments))
        yield lately[-1]
