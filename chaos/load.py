"""A steady stream of records, and the set that the broker acknowledged."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

CARDS = 40


class Load:
    """Writes records at a rate until stopped; waits during outages."""

    def __init__(self, brokers: str, topic: str, rate: float, seed: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": brokers,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "delivery.timeout.ms": 3_600_000,
                "log_level": 0,
            }
        )
        self._topic, self._rate, self._pick = topic, rate, random.Random(seed)
        self.acknowledged: set[int] = set()
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def finish(self) -> set[int]:
        """Stop, wait for every acknowledgement, and return the acknowledged ids."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(120)
        if len(self.acknowledged) < self.sent:
            raise SystemExit(
                f"{self.sent - len(self.acknowledged)} records were never acknowledged"
            )
        return self.acknowledged

    def _run(self) -> None:
        begin = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - begin) * self._rate)
            while self.sent < due:
                self._send(self.sent)
                self.sent += 1
            self._producer.poll(0.01)

    def _send(self, number: int) -> None:
        card = f"card-{self._pick.randrange(CARDS)}"
        row = {"id": number, "card": card, "n": self._pick.randrange(1000)}

        def acknowledged(error: object, _: object, number: int = number) -> None:
            if error is None:
                self.acknowledged.add(number)

        while not self._accepted(row, card, acknowledged):
            self._producer.poll(0.1)

    def _accepted(self, row: dict, card: str, acknowledged: Callable) -> bool:
        try:
            self._producer.produce(self._topic, json.dumps(row), card, on_delivery=acknowledged)
        except BufferError:
            return False
        else:
            return True
