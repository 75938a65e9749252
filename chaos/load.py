"""A steady stream of records, and the set that the brokers acknowledged."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from .shapes import tabled

if TYPE_CHECKING:
    from collections.abc import Callable

    from .shapes import Row, Shape

PATIENCE_SECONDS = 3600


class Load:
    """Writes the records of a shape at a rate until stopped; waits during outages."""

    def __init__(self, brokers: str, shape: Shape, rate: float, seed: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": brokers,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "delivery.timeout.ms": PATIENCE_SECONDS * 1000,
                "topic.metadata.refresh.interval.ms": 5000,
                "log_level": 0,
            }
        )
        self._shape, self._rate = shape, rate
        self._stream = shape.generator(seed)
        self.acknowledged: set[int] = set()
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start writing; a table comes first, and whole."""
        if self._shape.records is tabled:
            while self.sent < self._shape.cards:
                self._send_next()
            self._producer.flush(60)
        self._thread.start()

    def finish(self) -> set[int]:
        """Stop, wait for every acknowledgement, and return the acknowledged ids."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(120)
        if len(self.acknowledged) < self.sent:
            raise RuntimeError(
                f"{self.sent - len(self.acknowledged)} records were never acknowledged"
            )
        return self.acknowledged

    def _run(self) -> None:
        begin, before = time.monotonic(), self.sent
        while not self._stop.is_set():
            due = before + int((time.monotonic() - begin) * self._rate)
            while self.sent < due and not self._stop.is_set():
                self._send_next()
            self._producer.poll(0.05)

    def _send_next(self) -> None:
        number = self.sent
        for topic, row in self._shape.records(self._stream, number):
            self._send(topic, row, number)
        self.sent += 1

    def _send(self, topic: str, row: Row, number: int) -> None:
        def acknowledged(error: object, _: object) -> None:
            if error is None:
                self.acknowledged.add(number)

        while not self._accepted(topic, row, acknowledged):
            self._producer.poll(0.1)

    def _accepted(self, topic: str, row: Row, acknowledged: Callable[..., None]) -> bool:
        try:
            self._producer.produce(topic, json.dumps(row), row["card"], on_delivery=acknowledged)
        except BufferError:
            return False
        else:
            return True
