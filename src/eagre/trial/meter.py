"""The meter: reads results with their time of receipt, and judges them at the end."""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import threading
import time
from array import array
from dataclasses import asdict, dataclass
from typing import Any

from eagre.latency.arrivals import POLL_SECONDS, arrived
from eagre.trial.judge import SECOND_US, Judge, LinkJudge
from eagre.trial.load import Load, request
from eagre.waiting import wait_until

CONSUMER = {
    "group.id": "eagre-meter",
    "enable.auto.commit": False,
    "isolation.level": "read_uncommitted",
    "socket.nagle.disable": True,
    "log_level": 0,
}
AT_ONCE = 1_000
GLANCE = 500
SWITCH_SECONDS = 0.0005
"""How long the judge may delay the reader."""
LINGER_SECONDS = 0.5
"""How long the meter reads on after the last expected result, to notice duplicates."""


@dataclass(frozen=True)
class Measurement:
    """What to measure.

    Attributes:
        load: The load.
        topic: The results.
        begin: The offset of each partition to read from.
        source_begin: The same for a source with one partition; None if it has several.
        from_us: Results of records that are due from this time on count; earlier ones are warm-up.
        until_us: The end of that time.
        grace: Seconds after that in which late results still count; more on a slow machine.
        forwards: Whether the system only forwards events.
        kill_us: When the system is killed, if it is.
    """

    load: Load
    topic: str
    begin: dict[int, int]
    from_us: int
    until_us: int
    grace: float = 10
    source_begin: int | None = None
    forwards: bool = False
    kill_us: int = 0

    def judge(self) -> Judge:
        """Return the judge of the results."""
        return self.load.source.judge(self)


class Meter:
    """Stores three values per result as it arrives; expensive work follows after the load.

    The meter's work slows down the system. A thread reads until the end: results that arrive while
    others are judged have the right time.
    """

    def __init__(self, measurement: Measurement) -> None:
        self._what = measurement
        self._events = measurement.load.source
        self._now_us = measurement.load.now_us
        self._received = array("q")
        self._appended = array("q")
        self._values: list[bytes] = []
        self._over = False
        self._consumer = _consumer(measurement.load.brokers, measurement.topic, measurement.begin)

    def run(self) -> dict[str, Any]:
        """Read until every expected result has arrived or the grace is over."""
        gc.disable()
        sys.setswitchinterval(SWITCH_SECONDS)
        reader = threading.Thread(target=self._read)
        reader.start()
        try:
            self._watch()
            judge = self._judged()
        finally:
            self._over = True
            reader.join()
            self._consumer.close()
        total = judge.verdict()
        if isinstance(judge, LinkJudge) and self._what.source_begin is not None:
            total["links"] = judge.links(_appended(self._what))
        return total

    def _read(self) -> None:
        """Take the records that have arrived, with their time of receipt."""
        while not self._over:
            records = arrived(self._consumer, AT_ONCE)
            received = self._now_us()
            for record in records:
                if not record.error():
                    self._received.append(received)
                    self._appended.append(record.timestamp()[1])
                    self._values.append(self._events.evidence(record))

    def _watch(self) -> None:
        """Wait for the measured time, and report each second."""
        while (now := self._now_us()) < self._what.until_us:
            time.sleep(min(SECOND_US, self._what.until_us - now) / SECOND_US)
            self._report(now)

    def _judged(self) -> Judge:
        """Judge results until none is missing or the grace is over."""
        judge = self._what.judge()
        taken = 0

        def complete() -> bool:
            nonlocal taken
            taken = self._hand_over(judge, taken)
            return judge.complete()

        passed = (self._now_us() - self._what.until_us) / SECOND_US
        with contextlib.suppress(TimeoutError):
            wait_until(complete, max(0.0, self._what.grace - passed), "", interval=POLL_SECONDS)
        time.sleep(LINGER_SECONDS)
        self._hand_over(judge, taken)
        return judge

    def _hand_over(self, judge: Judge, taken: int) -> int:
        """Judge the results so far while the reader continues."""
        there = len(self._values)
        for at in range(taken, there):
            judge.take(self._values[at], self._received[at], self._appended[at])
        return there

    def _report(self, since_us: int) -> None:
        """Report the last second from a sample of its results."""
        records = 0
        while records < len(self._received) and self._received[-1 - records] >= since_us:
            records += 1
        newest = range(max(0, len(self._values) - min(records, GLANCE)), len(self._values))
        glances = [self._events.glance_us(self._what, self._values[at]) for at in newest]
        times = zip((self._received[at] for at in newest), glances, strict=True)
        begin_us = self._what.load.begin_us  # earlier events only probed whether a system answers
        latencies = sorted(
            (received - sent) / 1000 for received, sent in times if sent and sent >= begin_us
        )
        second: dict[str, float] = {"at_us": since_us, "records": records}
        if latencies:
            second["p50_ms"] = latencies[len(latencies) // 2]
            second["p99_ms"] = latencies[len(latencies) * 99 // 100]
        sys.stdout.write(json.dumps({"second": second}) + "\n")
        sys.stdout.flush()


def _consumer(brokers: str, topic: str, begin: dict[int, int]) -> Any:  # noqa: ANN401
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**CONSUMER, "bootstrap.servers": brokers})
    consumer.assign([TopicPartition(topic, int(p), o) for p, o in begin.items()])
    return consumer


def _appended(what: Measurement) -> list[int]:
    """Return when each event was appended to the source, if it has one partition."""
    consumer = _consumer(what.load.brokers, what.load.topic, {0: what.source_begin or 0})
    times: list[int] = []
    while len(times) < what.load.records:
        records = consumer.consume(AT_ONCE, 2)
        if not records:
            break
        times += [record.timestamp()[1] for record in records if not record.error()]
    consumer.close()
    return times


def main() -> None:
    """Read a ``Measurement`` as JSON from standard input; print seconds, then the total."""
    asked = request()
    what = Measurement(**{**asked, "load": Load(**asked["load"])})
    sys.stdout.write(json.dumps({"total": Meter(what).run()}) + "\n")


def to_json(measurement: Measurement) -> str:
    """Serialize a measurement for the meter process."""
    return json.dumps(asdict(measurement))


if __name__ == "__main__":
    main()
