"""The meter: reads the results and counts from the intended send time to the receipt."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

from eagre.bench.load import now_us
from eagre.latency import Histogram

CONSUMER = {
    "group.id": "eagre-meter",
    "enable.auto.commit": False,
    "socket.nagle.disable": True,
    "log_level": 0,
}
GRACE_SECONDS = 10
"""How long after the last record was due the meter still waits for results."""


@dataclass(frozen=True)
class Measurement:
    """What to measure.

    Attributes:
        brokers: The cluster.
        topic: The results.
        begin: The offset of each partition to read from.
        from_us: Results of records that were due from here on count; earlier ones are warm-up.
        until_us: Up to here.
        expected: How many results there should be in that time.
    """

    brokers: str
    topic: str
    begin: dict[int, int]
    from_us: int
    until_us: int
    expected: int


class Meter:
    """Measures, and reports each second what it saw."""

    def __init__(self, measurement: Measurement) -> None:
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415  (only this process)

        self._what = measurement
        self._total = Histogram()
        self._second = Histogram()
        self._consumer: Any = Consumer({**CONSUMER, "bootstrap.servers": measurement.brokers})
        self._consumer.assign(
            [TopicPartition(measurement.topic, int(p), o) for p, o in measurement.begin.items()]
        )

    def run(self) -> dict[str, float]:
        """Read until every expected result is in, or the grace is over."""
        deadline = self._what.until_us + GRACE_SECONDS * 1_000_000
        tick = now_us()
        while self._total.records < self._what.expected and now_us() < deadline:
            record = self._consumer.poll(0.2)
            received = now_us()
            if record is not None and not record.error():
                self._take(json.loads(record.value())["sent_us"], received)
            if received - tick >= 1_000_000:
                tick = received
                self._report()
        self._consumer.close()
        return {**self._total.summary(), "expected": self._what.expected}

    def _take(self, sent_us: int, received_us: int) -> None:
        self._second.record(received_us - sent_us)
        if self._what.from_us <= sent_us < self._what.until_us:
            self._total.record(received_us - sent_us)

    def _report(self) -> None:
        sys.stdout.write(json.dumps({"second": self._second.summary()}) + "\n")
        sys.stdout.flush()
        self._second = Histogram()


def main() -> None:
    """Read a ``Measurement`` as JSON from standard input; print seconds, then the total."""
    what = Measurement(**json.loads(sys.stdin.readline()))
    sys.stdout.write(json.dumps({"total": Meter(what).run()}) + "\n")


def to_json(measurement: Measurement) -> str:
    """Write a measurement for the meter process."""
    return json.dumps(asdict(measurement))


if __name__ == "__main__":
    main()
