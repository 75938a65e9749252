"""The load of all pipelines from one producer, and their results from one consumer."""

from __future__ import annotations

import heapq
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

from eagre.connectors.kafka import PROVENANCE_HEADER
from eagre.latency.arrivals import arrived
from eagre.trial.judge import provenance
from eagre.trial.load import Load
from eagre.trial.producer import PRODUCER, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eagre.trial.events import Record

    from .delivery_tracker import DeliveryTracker
    from .use_cases import UseCase

DAYS_32 = 32 * 86_400
OUTAGE_MS = 3_600_000
IDLE_SECONDS = 0.05
AT_ONCE = 1_000


def now_us() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


@dataclass
class Stream:
    """The events of one pipeline."""

    topic: str
    results: str
    tracker: DeliveryTracker
    feed: Iterator[Record]
    expects: Callable[[dict[str, Any]], bool]

    @classmethod
    def of(cls, case: UseCase, tracker: DeliveryTracker, rate: float, seed: int) -> Stream:
        """Create the events of a use case, which begin now."""
        events = case.events
        load = Load("", events.topic, events.path, rate, DAYS_32, now_us(), seed)
        return cls(events.topic, case.results, tracker, load.feed(), case.expects())


class Worker:
    """A thread that runs until it is stopped; the soak fails if it does."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def check(self) -> None:
        """Raise what it failed with, if it did."""
        if self._error:
            raise self._error

    def _end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001  (the main thread raises it)
            self._error = error

    def _run(self) -> None:
        raise NotImplementedError


class Generator(Worker):
    """Sends every event when it is due; waits while the broker is away, and loses none."""

    def __init__(self, brokers: str, streams: list[Stream]) -> None:
        super().__init__()
        self._producer: Any = Producer(
            {
                **PRODUCER,
                "bootstrap.servers": brokers,
                "acks": "all",
                "enable.idempotence": True,
                "delivery.timeout.ms": OUTAGE_MS,
                "delivery.report.only.error": False,
            }
        )
        self._streams = streams

    def finish(self, timeout: float) -> int:
        """Stop, and wait until the broker has every event; return how many it has not."""
        self._end()
        return int(self._producer.flush(timeout))

    def _run(self) -> None:
        due = [self._next(at) for at in range(len(self._streams))]
        heapq.heapify(due)
        while not self._stop.is_set():
            due_us, at, key, event = due[0]
            ahead = (due_us - now_us()) / 1_000_000
            self._producer.poll(min(max(ahead, 0.0), IDLE_SECONDS))
            if ahead <= IDLE_SECONDS:
                self._stop.wait(max(0.0, (due_us - now_us()) / 1_000_000))
                self._send(self._streams[at], key, event, due_us)
                heapq.heapreplace(due, self._next(at))

    def _next(self, at: int) -> tuple[int, int, str, dict[str, Any]]:
        """Return the next event of a stream: when it is due, the stream, key, event."""
        key, event, due_us = next(self._streams[at].feed)
        return due_us, at, key, event

    def _send(self, stream: Stream, key: str, event: dict[str, Any], due_us: int) -> None:
        expected, broken = stream.expects(event), "n/a" in event.values()

        def delivered(error: object, message: Any) -> None:  # noqa: ANN401  (librdkafka's record)
            if error is None:
                at = message.partition(), message.offset()
                stream.tracker.deliver(at, due_us, expected=expected, broken=broken)

        while True:
            try:
                self._producer.produce(stream.topic, encode(event), key, on_delivery=delivered)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return


class Reader(Worker):
    """Reads the results of all pipelines; a plain consumer that knows only the provenance."""

    def __init__(self, brokers: str, streams: list[Stream]) -> None:
        super().__init__()
        self._streams = {stream.results: stream for stream in streams}
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": "soak",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0) for topic in self._streams])

    def close(self) -> None:
        """Stop reading."""
        self._end()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            records = arrived(self._consumer, AT_ONCE)
            received = now_us()
            for record in records:
                if not record.error():
                    self._take(record, received)

    def _take(self, record: Any, received_us: int) -> None:  # noqa: ANN401  (librdkafka's record)
        place = provenance(dict(record.headers() or ()).get(PROVENANCE_HEADER) or b"")
        stream = self._streams[record.topic()]
        if place is not None and place[0] == stream.topic:
            stream.tracker.receive(place[1:], record.value() or b"", received_us)
