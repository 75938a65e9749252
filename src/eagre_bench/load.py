"""The load generator: events at a steady rate, each with the time it was *meant* to be sent.

The schedule does not wait for anything (open loop): when the machine stalls, the intended times go
on, and the stall is in the latencies instead of being left out of them.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

from eagre.latency import Histogram
from eagre_bench.workload import encode, merchants, workload

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCER = {
    "linger.ms": 0,
    "acks": 1,
    "partitioner": "murmur2_random",
    "socket.nagle.disable": True,
    "delivery.report.only.error": True,
    "log_level": 0,
}
"""The field's benchmark: no lingering, one acknowledgement; keyed as Java clients key."""
POISON = (b"{", b"\xff\xfe\x00", b"", b'{"id": NaN}', b"[" * 3000, b"9" * 400, b'"text"')
"""Bad records, each of which becomes a dead letter."""
PROBE_RATE = 1_000_000
PROBES = 1_000
"""At most so many events of seed 0 are sent before the load, to see whether a system answers."""
PROBE_AGE_US = 24 * 3600 * 1_000_000
"""How long ago the probes of an events file happened: no window of the load has them in it."""
DEFAULT_RATE = 2_000.0


@dataclass(frozen=True)
class Load:
    """What to send.

    Attributes:
        brokers: The cluster.
        topic: Where to.
        events: The name of a workload, or a Python file with ``events(random)``.
        rate: Records per second.
        seconds: For how long.
        begin_us: When the first record is due, in microseconds since 1970.
        seed: Of the events.
        offset_us: What the steady clock lacks to the wall clock, the same for all processes of a
            trial: a wall clock that is set in mid-run would give negative latencies.
        poison: After how many records a bad one goes out with the next; 0 for never.
    """

    brokers: str
    topic: str
    events: str
    rate: float
    seconds: float
    begin_us: int
    seed: int = 1
    offset_us: int = 0
    poison: int = 0

    def now_us(self) -> int:
        """The time by the trial's own clock."""
        return steady_us() + self.offset_us

    def due_us(self, number: int) -> int:
        """When record ``number`` is meant to be sent.

        >>> Load("", "", "", rate=2000, seconds=1, begin_us=0).due_us(3)
        1500
        """
        return self.begin_us + round(number * 1_000_000 / self.rate)

    @property
    def records(self) -> int:
        """How many records there are in all."""
        return round(self.rate * self.seconds)

    def feed(self) -> Iterator[tuple[str, dict[str, Any], int]]:
        """Each record's key, its event with its intended time, and that time."""
        return self._from_file() if self.from_file else self._from_workload()

    @property
    def from_file(self) -> bool:
        """Whether the events are those of a file."""
        return self.events.endswith(".py")

    def _from_file(self) -> Iterator[tuple[str, dict[str, Any], int]]:
        pairs = runpy.run_path(self.events)["events"](Random(self.seed))  # noqa: S311
        for number, (key, event) in zip(range(self.records), pairs, strict=False):
            due = self.due_us(number)
            yield key, {**_timed(event, due), "sent_us": due}, due

    def expected(self, from_us: int, until_us: int) -> set[int]:
        """When those of a time are due that must have a result; their file is asked for each."""
        expects = runpy.run_path(self.events).get("expects", lambda _: True)
        answered = {due for _, event, due in self.feed() if expects(event)}
        return {due for due in answered if from_us <= due < until_us}

    def _from_workload(self) -> Iterator[tuple[str, dict[str, Any], int]]:
        chosen = workload(self.events)
        field = chosen.semantics.key
        for number, event in zip(range(self.records), chosen.events(self.seed), strict=False):
            due = self.due_us(number)
            yield event[field], {**event, "event_time": due // 1000}, due


def _timed(event: dict[str, Any], due_us: int) -> dict[str, Any]:
    """Turn ``late_ms`` into the time of an event that is sent so much later than it happened."""
    if "late_ms" not in event:
        return event
    at = datetime.fromtimestamp(due_us / 1_000_000 - event["late_ms"] / 1000, UTC)
    rest = {name: value for name, value in event.items() if name != "late_ms"}
    return {**rest, "at": at.isoformat(timespec="milliseconds")}


class Generator:
    """Sends a load and keeps its own lateness."""

    def __init__(self, load: Load) -> None:
        from confluent_kafka import Producer

        self._load = load
        self._producer: Any = Producer({**PRODUCER, "bootstrap.servers": load.brokers})
        self._failed = 0

    def run(self) -> dict[str, float]:
        """Send every record at its time; give what was sent and how late it was.

        All records are made before the first is due, so that little but sending is left.
        """
        gc.disable()
        ready = [(key, encode(event), due) for key, event, due in self._load.feed()]
        late = [self._send(*record, self._bad(n)) for n, record in enumerate(ready, 1)]
        self._producer.flush(10)
        histogram = Histogram()
        for microseconds in late:
            histogram.record(microseconds)
        summary = histogram.summary()
        return {
            "sent": self._load.records - self._failed,
            "late_p50_ms": summary["p50_ms"],
            "late_p99_ms": summary["p99_ms"],
            "late_max_ms": summary["max_ms"],
        }

    def _bad(self, number: int) -> bytes | None:
        """Give the bad record that goes out with a record, if one does."""
        turn, rest = divmod(number, self._load.poison or number + 1)
        return None if rest else POISON[turn % len(POISON)]

    def _send(self, key: str, value: str, due_us: int, bad: bytes | None) -> int:
        """Send a record at its time, and give by how much it was late."""
        while (ahead := due_us - self._load.now_us()) > 0:
            self._producer.poll(0)
            time.sleep(ahead / 1_000_000)
        while True:
            try:
                self._producer.produce(self._load.topic, value, key, on_delivery=self._delivered)
                if bad is not None:
                    self._producer.produce(self._load.topic, bad, key)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return max(0, -ahead)

    def _delivered(self, error: object, _: object) -> None:
        self._failed += error is not None


class Probe:
    """Sends single events of seed 0, to see whether a system answers."""

    def __init__(self, load: Load) -> None:
        from confluent_kafka import Producer

        begin = load.begin_us - (PROBE_AGE_US if load.from_file else 0)
        self._load = replace(
            load, seed=0, rate=PROBE_RATE, seconds=PROBES / PROBE_RATE, begin_us=begin
        )
        self._feed = self._load.feed()
        self._producer: Any = Producer({**PRODUCER, "bootstrap.servers": load.brokers})

    def send(self) -> None:
        """Send the next one."""
        key, event, _ = next(self._feed)
        self._producer.produce(self._load.topic, encode(event), key)
        self._producer.flush(5)


def topic_of(events: str) -> str:
    """The topic that an events file is for."""
    return str(runpy.run_path(events)["TOPIC"])


def rate_of(events: str) -> float:
    """How many events a second an events file is meant to be sent with."""
    return float(runpy.run_path(events).get("RATE", DEFAULT_RATE))


def fill_tables(brokers: str, events: str, seed: int = 1) -> None:
    """Send what ``tables(random)`` of an events file yields: topic, key and row of tables."""
    from confluent_kafka import Producer

    from eagre.broker import Topics

    rows = runpy.run_path(events).get("tables", lambda _: ())(Random(seed))  # noqa: S311
    producer: Any = Producer({**PRODUCER, "linger.ms": 5, "bootstrap.servers": brokers})
    made: set[str] = set()
    for topic, key, row in rows:
        if topic not in made:
            Topics(brokers).create(topic, 1)
            made.add(topic)
        producer.produce(topic, encode(row), key)
    producer.flush(10)


def send_merchants(brokers: str, topic: str) -> None:
    """Write the table that ``enrich`` joins with into a topic."""
    from confluent_kafka import Producer

    producer: Any = Producer({**PRODUCER, "linger.ms": 5, "bootstrap.servers": brokers})
    for name, (category, country) in merchants().items():
        row = {"merchant": name, "category": category, "country": country}
        producer.produce(topic, encode(row), name)
    producer.flush(10)


def steady_us() -> int:
    """The clock that only goes forward, in microseconds; one for all processes of a machine."""
    return time.monotonic_ns() // 1000


def clock_offset_us() -> int:
    """What the steady clock lacks to the wall clock at this moment."""
    return time.time_ns() // 1000 - steady_us()


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
