"""The result sampler: a consumer of the output topic that feeds the latency meter."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from eagre.latency.arrivals import arrived
from eagre.latency.origin import provenance
from eagre.reader import FENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from eagre.latency import Meter

CONSUMER = {
    "group.id": "eagre-dashboard",
    "enable.auto.commit": False,
    "isolation.level": "read_uncommitted",
    "socket.nagle.disable": True,
    "queued.max.messages.kbytes": 2048,
    "fetch.queue.backoff.ms": 5,
    "log_level": 0,
}
AT_ONCE = 500
MOST_PER_SECOND = 5_000
"""Above this rate it samples: in each fifth of a second it reads the first thousand results."""
SLICE_SECONDS = 0.2
_SLICE = round(MOST_PER_SECOND * SLICE_SECONDS)


class ResultSampler:
    """Reads new results of topics, in its own thread.

    Args:
        settings: The client settings for librdkafka.
        topics: The output topics and their numbers of partitions.
        sources: The pipeline's source topics; results of other pipelines are ignored.
        meter: The meter to feed.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: Mapping[str, int],
        sources: Iterable[str],
        meter: Meter,
    ) -> None:
        from confluent_kafka import OFFSET_END, Consumer, TopicPartition

        self._meter = meter
        self._sources = tuple(name.encode() + b"/" for name in sources)
        self._consumer: Any = Consumer({**settings, **CONSUMER})
        self._ends = [
            TopicPartition(name, p, OFFSET_END) for name, n in topics.items() for p in range(n)
        ]
        self._consumer.assign(self._ends)
        self._last: dict[tuple[str, int], int] = {}
        self._after_gap: set[tuple[str, int]] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="eagre-sampler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._over.set()
        self._thread.join(5)

    def _read(self) -> None:
        began, taken = time.monotonic(), 0
        while not self._over.is_set():
            taken += self._take()
            now = time.monotonic()
            if taken >= _SLICE and now - began < SLICE_SECONDS:
                self._skip(SLICE_SECONDS - (now - began))
                now = time.monotonic()
            if now - began >= SLICE_SECONDS:
                began, taken = now, 0
        self._consumer.close()

    def _take(self) -> int:
        """Take the records that have arrived, with their time of receipt; return their number."""
        records = arrived(self._consumer, AT_ONCE)
        if not records:
            return 0
        received = time.time_ns() // 1000
        good = [record for record in records if not record.error()]
        results = [provenance(record) for record in good if not _is_fence(record)]
        ours = [result for result in results if result and result.at.startswith(self._sources)]
        missing = sum(result is None for result in results)
        self._meter.take(ours, received, unmeasured=missing, skipped=self._skipped(good))
        return len(good)

    def _skipped(self, records: list[Any]) -> int:
        """Count the records skipped before the first record of each partition after a gap."""
        count = 0
        for record in records:
            at = (record.topic(), record.partition())
            if at in self._after_gap:
                self._after_gap.discard(at)
                count += max(0, record.offset() - self._last[at] - 1)
            self._last[at] = record.offset()
        return count

    def _skip(self, seconds: float) -> None:
        """Skip records for a while, then continue with the newest."""
        self._consumer.unassign()
        self._over.wait(seconds)
        self._after_gap |= set(self._last)
        self._consumer.assign(self._ends)


def _is_fence(record: Any) -> bool:  # noqa: ANN401
    return any(name == FENCE for name, _ in record.headers() or ())
