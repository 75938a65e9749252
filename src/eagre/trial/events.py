"""The events of a load and how their results are judged.

``resolve`` accepts the Python file of a use case, or an object of an installed package.
"""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from eagre.config import counted
from eagre.connectors.kafka import PROVENANCE_HEADER
from eagre.errors import TrialError
from eagre.trial.judge import SENT_FIELD, EventJudge, answers
from eagre.trial.producer import PRODUCER, encode, unsent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.trial.judge import Judge
    from eagre.trial.load import Load
    from eagre.trial.meter import Measurement

DEFAULT_RATE = 2_000.0
DAY_US = 24 * 3600 * 1_000_000

Record = tuple[str, dict[str, Any], int]
"""Key, event, and due time in microseconds since 1970."""


class Events(Protocol):
    """Events to send, and the judge of their results."""

    @property
    def probe_age_us(self) -> int:
        """How long before the load the events of probes happened."""

    def feed(self, load: Load) -> Iterator[Record]:
        """Return the records of a load."""

    def judge(self, what: Measurement) -> Judge:
        """Return the judge of its results."""

    def evidence(self, record: Any) -> bytes:  # noqa: ANN401  (a record of Kafka's client)
        """Return what the judge needs of a result."""

    def glance_us(self, what: Measurement, evidence: bytes) -> int | None:
        """Return when the event of a result was due, for the progress display; None if unknown."""


@dataclass(frozen=True)
class EventsFile:
    """A Python file with ``TOPIC`` and ``events(random)``.

    It may have ``RATE``, ``expects(event)`` and ``tables(random)``. The file is run again for each
    call, because its functions may have state.
    """

    path: str
    probe_age_us = DAY_US

    @property
    def topic(self) -> str:
        """The topic of the events."""
        return str(self._run()["TOPIC"])

    @property
    def rate(self) -> float:
        """The default rate in events per second."""
        return float(self._run().get("RATE", DEFAULT_RATE))

    def feed(self, load: Load) -> Iterator[Record]:
        """Yield each event with its intended time in ``sent_us``."""
        pairs = self._run()["events"](Random(load.seed))  # noqa: S311
        for number, (key, event) in zip(range(load.records), pairs, strict=False):
            due = load.due_us(number)
            yield key, {**_timed(event, due), "sent_us": due}, due

    def expected(self, load: Load, from_us: int, until_us: int) -> set[int]:
        """Return the due times of the events in a period that must have a result."""
        expects = self._run().get("expects", lambda _: True)
        answered = {due for _, event, due in self.feed(load) if expects(event)}
        return {due for due in answered if from_us <= due < until_us}

    def judge(self, what: Measurement) -> Judge:
        """Judge by the events that must have a result."""
        return EventJudge(what, self.expected(what.load, what.from_us, what.until_us))

    def evidence(self, record: Any) -> bytes:  # noqa: ANN401  (a record of Kafka's client)
        """Return the value of a result, or its provenance if the value has no ``sent_us``."""
        value: bytes = record.value() or b""
        return (
            value
            if SENT_FIELD in value
            else dict(record.headers() or ()).get(PROVENANCE_HEADER) or value
        )

    def glance_us(self, what: Measurement, evidence: bytes) -> int | None:
        """Return when the event of a result was due."""
        return answers(what, evidence)

    def fill_tables(self, brokers: str, seed: int = 1) -> None:
        """Send the rows of ``tables(random)``, each with its topic and key.

        Raises:
            TrialError: The cluster did not accept all rows.
        """
        from confluent_kafka import Producer

        from eagre.broker import Topics

        rows = self._run().get("tables", lambda _: ())(Random(seed))  # noqa: S311
        producer: Any = Producer({**PRODUCER, "linger.ms": 5, "bootstrap.servers": brokers})
        made: set[str] = set()
        for topic, key, row in rows:
            if topic not in made:
                Topics(brokers).create(topic, 1)
                made.add(topic)
            producer.produce(topic, encode(row), key)
        if left := unsent(producer):
            raise TrialError(
                "TABLES_NOT_SENT",
                f"{brokers} did not accept {counted(left, 'row')} of the tables in time.",
                hint="try again when the machine is less busy.",
            )

    def _run(self) -> dict[str, Any]:
        return runpy.run_path(self.path)


def resolve(reference: str) -> Events:
    """Find events by the path of a Python file, or by ``package.module:NAME``.

    Raises:
        TrialError: They do not exist.
    """
    if reference.endswith(".py"):
        return EventsFile(reference)
    module, _, name = reference.partition(":")
    try:
        events: Events = getattr(import_module(module), name)
    except (AttributeError, ImportError, ValueError) as error:
        raise TrialError(
            "EVENTS_UNKNOWN",
            f"{reference!r} cannot be loaded as events: {error}",
            hint="name a Python file with events(random), or an object as package.module:NAME.",
        ) from error
    return events


def _timed(event: dict[str, Any], due_us: int) -> dict[str, Any]:
    """Turn ``late_ms`` into an event time that is so much earlier than the send time."""
    if "late_ms" not in event:
        return event
    at = datetime.fromtimestamp(due_us / 1_000_000 - event["late_ms"] / 1000, UTC)
    rest = {name: value for name, value in event.items() if name != "late_ms"}
    return {**rest, "at": at.isoformat(timespec="milliseconds")}
