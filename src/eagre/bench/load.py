"""The load generator: events at a steady rate, each with the time it was *meant* to be sent.

The schedule does not wait for anything (open loop): when the machine stalls, the intended times go
on, and the stall is in the latencies instead of being left out of them.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from dataclasses import asdict, dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from eagre.latency import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PRODUCER = {
    "linger.ms": 0,
    "acks": 1,
    "partitioner": "murmur2_random",
    "socket.nagle.disable": True,
    "log_level": 0,
}
"""The field's benchmark: no lingering, one acknowledgement; keyed as Java clients key."""


@dataclass(frozen=True)
class Load:
    """What to send.

    Attributes:
        brokers: The cluster.
        events: A Python file with ``TOPIC`` and ``events(random)``.
        rate: Records per second.
        seconds: For how long.
        begin_us: When the first record is due, in microseconds since 1970.
        seed: Of the events.
    """

    brokers: str
    events: str
    rate: float
    seconds: float
    begin_us: int
    seed: int = 1

    def due_us(self, number: int) -> int:
        """When record ``number`` is meant to be sent.

        >>> Load("", "", rate=2000, seconds=1, begin_us=0).due_us(3)
        1500
        """
        return self.begin_us + round(number * 1_000_000 / self.rate)

    @property
    def records(self) -> int:
        """How many records there are in all."""
        return round(self.rate * self.seconds)


class Generator:
    """Sends a load and keeps its own lateness."""

    def __init__(self, load: Load) -> None:
        from confluent_kafka import Producer

        self._load = load
        self._producer: Any = Producer({**PRODUCER, "bootstrap.servers": load.brokers})
        self._late = Histogram()
        self._failed = 0

    def run(self) -> dict[str, float]:
        """Send every record at its time; give what was sent and how late it was."""
        namespace = runpy.run_path(self._load.events)
        events = namespace["events"](Random(self._load.seed))  # noqa: S311  (events, not secrets)
        for number in range(self._load.records):
            due = self._load.due_us(number)
            self._wait(due)
            self._send(namespace["TOPIC"], events, due)
        self._producer.flush(10)
        late = self._late.summary()
        return {"sent": self._load.records - self._failed, "late_p99_ms": late["p99_ms"]}

    def _wait(self, due_us: int) -> None:
        while (ahead := due_us - now_us()) > 0:
            self._producer.poll(0)
            time.sleep(ahead / 1_000_000)
        self._late.record(max(0, -ahead))

    def _send(self, topic: str, events: Iterator[tuple[str, dict[str, Any]]], due_us: int) -> None:
        key, event = next(events)
        value = json.dumps({**event, "sent_us": due_us}, separators=(",", ":"))
        self._producer.produce(topic, value, key, on_delivery=self._delivered)

    def _delivered(self, error: object, _: object) -> None:
        self._failed += error is not None


def topic_of(events: Path) -> str:
    """The topic that an events file is for."""
    return str(runpy.run_path(str(events))["TOPIC"])


def now_us() -> int:
    """The wall clock in microseconds; generator and meter are on one machine."""
    return time.time_ns() // 1000


def request() -> dict[str, Any]:
    """Read what to do from standard input; when that ends, the parent is gone, and so are we."""
    line = json.loads(sys.stdin.readline())

    def tether() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=tether, daemon=True).start()
    return dict(line)


def main() -> None:
    """Read a ``Load`` as JSON from standard input, send it, print what was sent."""
    load = Load(**request())
    sys.stdout.write(json.dumps(Generator(load).run()) + "\n")


def to_json(load: Load) -> str:
    """Write a load for the generator process."""
    return json.dumps(asdict(load))


if __name__ == "__main__":
    main()
