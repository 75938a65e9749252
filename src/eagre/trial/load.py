"""The load generator: events at a steady rate, each with the time it was *meant* to be sent.

The schedule does not wait for anything (open loop): when the machine stalls, the intended times
continue, and the latencies include the stall.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from eagre.errors import TrialError
from eagre.latency import Histogram
from eagre.trial.events import resolve
from eagre.trial.producer import PRODUCER, encode, unsent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagre.trial.events import Events, Record

POISON = (b"{", b"\xff\xfe\x00", b"", b'{"id": NaN}', b"[" * 3000, b"9" * 400, b'"text"')
"""Bad records, each of which becomes a dead letter."""
PROBE_RATE = 1_000_000
PROBES = 1_000
"""The number of events of seed 0 that probe repeatedly, before the load, until a system answers."""
LATE_MS = 20.0
"""If the generator is later than this at p99, its figures are invalid."""


@dataclass(frozen=True)
class Load:
    """A load to send.

    Attributes:
        brokers: The cluster.
        topic: The topic.
        events: A Python file with ``events(random)``, or an object by ``package.module:NAME``.
        rate: Records per second.
        seconds: The duration.
        begin_us: When the first record is due, in microseconds since 1970.
        seed: The seed of the events.
        offset_us: The wall clock minus the monotonic clock, the same for all processes of a
            trial: setting the wall clock during a run would give negative latencies.
        poison: After how many records a bad one is sent; 0 for never.
        ramp: Seconds in which the rate grows from zero to the full rate.
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
    ramp: float = 0

    def now_us(self) -> int:
        """Return the time of the trial's clock."""
        return steady_us() + self.offset_us

    def due_us(self, number: int) -> int:
        """Return when record ``number`` is due.

        >>> Load("", "", "", rate=2000, seconds=1, begin_us=0).due_us(3)
        1500
        >>> growing = Load("", "", "", rate=2000, seconds=3, begin_us=0, ramp=2)
        >>> growing.records, [growing.due_us(n) for n in (0, 500, 2000, 4000)]
        (4000, [0, 1000000, 2000000, 3000000])
        """
        if number * 2 < self.rate * self.ramp:
            seconds = math.sqrt(2 * self.ramp * number / self.rate)
        else:
            seconds = self.ramp / 2 + number / self.rate
        return self.begin_us + round(seconds * 1_000_000)

    @property
    def records(self) -> int:
        """The total number of records."""
        return round(self.rate * (self.seconds - self.ramp / 2))

    @cached_property
    def source(self) -> Events:
        """The object behind ``events``."""
        return resolve(self.events)

    def feed(self) -> Iterator[Record]:
        """Yield each record: key, event with its intended time, and that time."""
        return self.source.feed(self)


class Generator:
    """Sends a load and measures its own lateness."""

    def __init__(self, load: Load) -> None:
        from confluent_kafka import Producer

        self._load = load
        self._producer: Any = Producer({**PRODUCER, "bootstrap.servers": load.brokers})
        self._failed = 0

    def run(self) -> dict[str, float]:
        """Send every record at its time; return the number sent and the lateness.

        All records are created before the first is due.
        """
        gc.disable()
        ready = [(key, encode(event), due) for key, event, due in self._load.feed()]
        late = [self._send(*record, self._bad(n)) for n, record in enumerate(ready, 1)]
        self._failed += unsent(self._producer)
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
        """Return the bad record to send with a record, if any."""
        turn, rest = divmod(number, self._load.poison or number + 1)
        return None if rest else POISON[turn % len(POISON)]

    def _send(self, key: str, value: str, due_us: int, bad: bytes | None) -> int:
        """Send a record at its time, and return its lateness."""
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
    """Sends single events of seed 0, until a system answers."""

    def __init__(self, load: Load) -> None:
        from confluent_kafka import Producer

        begin = load.begin_us - load.source.probe_age_us
        self._load = replace(
            load, seed=0, rate=PROBE_RATE, seconds=PROBES / PROBE_RATE, begin_us=begin
        )
        self._feed = self._load.feed()
        self._producer: Any = Producer({**PRODUCER, "bootstrap.servers": load.brokers})

    def send(self) -> None:
        """Send the next event."""
        key, event, _ = self._next()
        self._producer.produce(self._load.topic, encode(event), key)
        self._producer.flush(5)

    def _next(self) -> Record:
        """Return the next event; a system that starts slowly gets the first ones again."""
        for feed in (self._feed, self._load.feed()):
            for record in feed:
                self._feed = feed
                return record
        raise TrialError(
            "EVENTS_EMPTY",
            f"{self._load.events} yields no events.",
            hint="its events(random) must yield pairs of a key and an event.",
        )


def steady_us() -> int:
    """Return the monotonic clock in microseconds; it is the same for all processes of a machine."""
    return time.monotonic_ns() // 1000


def clock_offset_us() -> int:
    """Return the current difference of the wall clock and the monotonic clock."""
    return time.time_ns() // 1000 - steady_us()


def request() -> dict[str, Any]:
    """Read the order from standard input, and exit when it closes: the parent has ended."""
    line = json.loads(sys.stdin.readline())

    def tether() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=tether, daemon=True).start()
    return dict(line)


def main() -> None:
    """Read a ``Load`` as JSON from standard input, send it, print the figures."""
    load = Load(**request())
    sys.stdout.write(json.dumps(Generator(load).run()) + "\n")


def to_json(load: Load) -> str:
    """Serialize a load for the generator process."""
    return json.dumps(asdict(load))


if __name__ == "__main__":
    main()
