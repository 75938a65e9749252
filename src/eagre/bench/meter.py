"""The meter: reads the results and counts from the intended send time to the receipt."""

from __future__ import annotations

import json
import sys
from array import array
from dataclasses import asdict, dataclass
from typing import Any

from eagre.bench.load import now_us, request
from eagre.latency import Histogram

CONSUMER = {
    "group.id": "eagre-meter",
    "enable.auto.commit": False,
    "socket.nagle.disable": True,
    "log_level": 0,
}
SECOND_US = 1_000_000
POLL_SECONDS = 0.2
AT_ONCE = 1_000
MARK = b'"sent_us":'
MICROSECOND_DIGITS = 16
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
    """Measures, and reports each second what it saw.

    While records come it only notes two numbers for each: everything dear is done between the
    seconds or at the end, since what the meter does slows down what it measures.
    """

    def __init__(self, measurement: Measurement) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._what = measurement
        self._counted = array("q")
        self._second = array("q")
        self._consumer: Any = Consumer({**CONSUMER, "bootstrap.servers": measurement.brokers})
        self._consumer.assign(
            [TopicPartition(measurement.topic, int(p), o) for p, o in measurement.begin.items()]
        )

    def run(self) -> dict[str, float]:
        """Read until every expected result is in, or the grace is over."""
        deadline = self._what.until_us + GRACE_SECONDS * SECOND_US
        tick = now_us()
        while len(self._counted) < self._what.expected and (received := now_us()) < deadline:
            self._read()
            if received - tick >= SECOND_US:
                tick = received
                self._report()
        self._consumer.close()
        return {**_summary(self._counted), "expected": self._what.expected}

    def _read(self) -> None:
        """Wait for one record, then take what else is there; all of it has arrived by now."""
        first = self._consumer.poll(POLL_SECONDS)
        if first is None:
            return
        received = now_us()
        for record in (first, *self._consumer.consume(AT_ONCE, 0)):
            if not record.error():
                self._take(sent_us(record.value()), received)

    def _take(self, sent: int, received: int) -> None:
        self._second.append(received - sent)
        if self._what.from_us <= sent < self._what.until_us:
            self._counted.append(received - sent)

    def _report(self) -> None:
        sys.stdout.write(json.dumps({"second": _percentiles(self._second)}) + "\n")
        sys.stdout.flush()
        self._second = array("q")


def sent_us(value: bytes) -> int:
    """Read the intended send time out of a JSON result, without parsing the rest of it.

    >>> sent_us(b'{"card":"c","sent_us":1731650000000000,"risk":0.1}')
    1731650000000000
    """
    begin = value.index(MARK) + len(MARK)
    end = begin + MICROSECOND_DIGITS
    return int(value[begin:end])


def _summary(latencies: array[int]) -> dict[str, float]:
    histogram = Histogram()
    for latency in latencies:
        histogram.record(latency)
    return histogram.summary()


def _percentiles(latencies: array[int]) -> dict[str, float]:
    """Give the figures of one second, which is few enough to sort."""
    ordered = sorted(latencies) or [0]
    return {
        "p50_ms": ordered[len(ordered) // 2] / 1000,
        "p99_ms": ordered[len(ordered) * 99 // 100] / 1000,
        "records": len(latencies),
    }


def main() -> None:
    """Read a ``Measurement`` as JSON from standard input; print seconds, then the total."""
    what = Measurement(**request())
    sys.stdout.write(json.dumps({"total": Meter(what).run()}) + "\n")


def to_json(measurement: Measurement) -> str:
    """Write a measurement for the meter process."""
    return json.dumps(asdict(measurement))


if __name__ == "__main__":
    main()
