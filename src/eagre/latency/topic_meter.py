"""Measures the latency of any topic's records, as they arrive."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from eagre.latency.arrivals import arrived
from eagre.latency.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from eagre.latency.origin import Origin

CONSUMER = {
    "group.id": "eagre-measure",
    "enable.auto.commit": False,
    "socket.nagle.disable": True,
    "fetch.queue.backoff.ms": 5,
    "log_level": 0,
}
AT_ONCE = 1_000
MOST_WAITING = 500_000
"""How many records may wait for their evaluation; above that, the newest are only counted."""
SWITCH_SECONDS = 0.0005
"""How long the evaluation may delay the reader."""

Figures = dict[str, Any]


class TopicMeter:
    """Reads new records of a topic in a thread, and evaluates them in another.

    Args:
        settings: The client settings for librdkafka.
        topic: The topic.
        partitions: Its number of partitions.
        origin: Where the time of a record's event is.
        committed_only: Whether to read transactional records only when they are committed.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topic: str,
        partitions: int,
        origin: Origin,
        *,
        committed_only: bool = False,
    ) -> None:
        from confluent_kafka import OFFSET_END, Consumer, TopicPartition

        level = "read_committed" if committed_only else "read_uncommitted"
        self._consumer: Any = Consumer({**settings, **CONSUMER, "isolation.level": level})
        self._consumer.assign([TopicPartition(topic, p, OFFSET_END) for p in range(partitions)])
        self._origin = origin
        self._waiting: deque[tuple[int, Any]] = deque()
        self._over = threading.Event()
        self._error: Any = None
        self._thread = threading.Thread(target=self._read, name="eagre-measure", daemon=True)
        self.total = Histogram()
        self.unmeasured = 0
        self.skipped = 0
        self.unreadable: bytes | None = None
        """The value of the last record without a time."""

    def seconds(self, warmup: float, seconds: float) -> Iterator[Figures]:
        """Read for a time, and yield the figures of each second; those of the warm-up do not count.

        Raises:
            BrokerError: The topic cannot be read.
        """
        interval, collects = sys.getswitchinterval(), gc.isenabled()
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.disable()
        began = time.monotonic()
        counts = False
        self._thread.start()
        try:
            while (passed := time.monotonic() - began) < warmup + seconds:
                time.sleep(min(1.0, warmup + seconds - passed))
                counts = passed >= warmup
                second = self._evaluate(count=counts)
                yield {**second.summary(), "warming": not counts} if second.records else {}
                self._raise_error()
        finally:
            self._over.set()
            self._thread.join()
            self._evaluate(count=counts)
            self._consumer.close()
            sys.setswitchinterval(interval)
            if collects:
                gc.enable()

    def _read(self) -> None:
        """Take the records that have arrived, with their time of receipt."""
        while not self._over.is_set():
            records = arrived(self._consumer, AT_ONCE)
            received = time.time_ns() // 1000
            for record in records:
                if record.error():
                    self._error = record.error()
                elif len(self._waiting) < MOST_WAITING:
                    self._waiting.append((received, record))
                else:
                    self.skipped += 1

    def _evaluate(self, *, count: bool) -> Histogram:
        """Return the latencies of the records so far, and add them to the total."""
        second = Histogram()
        for _ in range(len(self._waiting)):
            received, record = self._waiting.popleft()
            origin = self._origin.time_us(record)
            if origin is not None:
                second.record(received - origin)
            elif count:
                self.unmeasured += 1
                self.unreadable = record.value()
        if count:
            self.total.add(second)
        return second

    def _raise_error(self) -> None:
        from eagre.errors import BrokerError

        if self._error is not None and not self._error.retriable():
            raise BrokerError("TOPIC_UNREADABLE", f"the topic cannot be read: {self._error.str()}.")
